// The optimizer's kernels against float64 and against the CPU backend.
#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {
namespace {

// Less than a block of sums, whole ones, one more; with and without wide loads.
struct Case {
  std::size_t count, offset;
};
const std::vector<Case> kCases = {{1, 0},     {3, 1},     {4, 0},     {17, 0},      {1023, 1},
                                  {16384, 0}, {16385, 0}, {50001, 1}, {17000000, 0}};

TEST(sum_of_squares_matches_float64) {
  const DeviceCase device(ComputeType::f32);
  for (const auto& [count, offset] : kCases) {
    Floats x(offset + count);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009) * 0.01f - 4;
    long double sum = 0;  // in double a plain sum of so many is wrong in its eleventh digit
    for (std::size_t i = offset; i < x.size(); ++i) sum += double{x[i]} * x[i];
    const auto expected = static_cast<double>(sum);
    const auto device_x = device.upload(x);
    const auto n = static_cast<std::int64_t>(count);
    const double actual = cuda::sum_of_squares(device.context(), device_x.data() + offset, n);
    CHECK_NEAR(actual, expected, 1e-12 * expected);
    CHECK_EQ(actual, cuda::sum_of_squares(device.context(), device_x.data() + offset, n));
  }
}

TEST(sum_of_squares_of_numbers_out_of_bounds) {
  const DeviceCase device(ComputeType::f32);
  Floats x(20000, 1e30f);
  const auto large = device.upload(x);
  // In float it would overflow.
  CHECK_NEAR(cuda::sum_of_squares(device.context(), large.data(), 20000), 2e64, 1e58);
  x[17777] = std::numeric_limits<float>::quiet_NaN();
  const auto poisoned = device.upload(x);
  CHECK(std::isnan(cuda::sum_of_squares(device.context(), poisoned.data(), 20000)));
}

TEST(adamw_matches_the_cpu) {
  const auto cpu = cpu::make_cpu_backend(ComputeType::f32, *cpu::supported_kernels().back());
  const DeviceCase device(ComputeType::f32);
  for (const auto& [count, offset] : kCases) {
    if (count > 100000) continue;
    const auto n = static_cast<std::int64_t>(count);
    Floats w = normal(offset + count, 1), m(w.size()), v(w.size());
    const auto device_w = device.upload(w), device_m = device.upload(m),
               device_v = device.upload(v);
    for (std::int64_t step = 1; step <= 20; ++step) {
      const Floats g = normal(w.size(), 100 + static_cast<std::uint64_t>(step), 0.1f);
      const AdamWStep how{.learning_rate = 1e-2f,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .epsilon = 1e-8f,
                          .weight_decay = 0.1f,
                          .step = step,
                          .gradient_scale = 0.5f};
      cpu->adamw(w.data() + offset, g.data() + offset, m.data() + offset, v.data() + offset, n,
                 how);
      const auto device_g = device.upload(g);
      cuda::adamw(device.context(), device_w.data() + offset, device_g.data() + offset,
                  device_m.data() + offset, device_v.data() + offset, n, how);
    }
    const Floats actual_w = device_w.download(), actual_m = device_m.download(),
                 actual_v = device_v.download();
    for (std::size_t i = 0; i < w.size(); ++i) {
      // Twenty steps of at most about 0.01, each a few roundings apart.
      CHECK_NEAR(actual_w[i], w[i], 1e-6 * std::max(1.0f, std::abs(w[i])));
      CHECK_NEAR(actual_m[i], m[i], 2e-7 * 0.1);
      CHECK_NEAR(actual_v[i], v[i], 1e-6 * std::abs(v[i]));
    }
  }
}

}  // namespace
}  // namespace hindsearch::testing
