// Linear layers against the CPU backend.
#include "native/test/cuda/device_case.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

struct Shape {
  std::size_t rows, n, k;
};
const std::vector<Shape> kShapes = {{1, 1, 1},   {1, 64, 96},   {2, 33, 12},
                                    {3, 12, 33}, {33, 96, 64},  {257, 33, 2},
                                    {5, 2, 257}, {2, 300, 896}, {600, 31, 24}};

// A chain of k products in f32 is off by a few ulp of its terms, here and there.
double tolerance(std::size_t k) { return 8e-7 * std::sqrt(static_cast<double>(k)) + 8e-7; }

TEST(linear_matches_the_cpu) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const Shape& s : kShapes) {
      const auto rows = static_cast<std::int64_t>(s.rows), n = static_cast<std::int64_t>(s.n),
                 k = static_cast<std::int64_t>(s.k);
      const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2), bias = normal(s.n, 3),
                   before = normal(s.rows * s.n, 4),
                   nothing(before.size(), std::numeric_limits<float>::quiet_NaN());
      const auto packed = cpu.pack(w.data(), n, k);
      const auto device_x = device.upload(x), device_bias = device.upload(bias);
      const DeviceMatrix weight = device.matrix(w, n, k);
      for (const bool with_bias : {false, true}) {
        for (const bool accumulate : {false, true}) {
          Floats y = accumulate ? before : nothing;
          const auto device_y = device.upload(y);
          cpu.linear(x.data(), rows, *packed, with_bias ? bias.data() : nullptr, y.data(),
                     accumulate);
          cuda::linear(device.context(), device_x.data(), rows, weight.view(),
                       with_bias ? device_bias.data() : nullptr, device_y.data(), accumulate);
          CHECK(relative_error(device_y.download(), reference::widen(y)) <= tolerance(s.k));
        }
      }
      CHECK(same_bits(device_x.download(), x));
    }
  });
}

TEST(linear_backward_matches_the_cpu) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const Shape& s : kShapes) {
      const auto rows = static_cast<std::int64_t>(s.rows), n = static_cast<std::int64_t>(s.n),
                 k = static_cast<std::int64_t>(s.k);
      const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2),
                   d_y = normal(s.rows * s.n, 3), before = normal(s.rows * s.k, 4),
                   d_weight_before = normal(s.n * s.k, 5), d_bias_before = normal(s.n, 6);
      const auto packed = cpu.pack(w.data(), n, k);
      const auto device_x = device.upload(x), device_d_y = device.upload(d_y);
      const DeviceMatrix weight = device.matrix(w, n, k);
      for (const bool accumulate : {false, true}) {
        Floats d_x =
            accumulate ? before : Floats(before.size(), std::numeric_limits<float>::quiet_NaN());
        const auto device_d_x = device.upload(d_x);
        cpu.linear_backward_input(d_y.data(), rows, *packed, w.data(), d_x.data(), accumulate);
        cuda::linear_backward_input(device.context(), device_d_y.data(), rows, weight.view(),
                                    device_d_x.data(), accumulate);
        CHECK(relative_error(device_d_x.download(), reference::widen(d_x)) <= tolerance(s.n));
      }
      for (const bool with_bias : {false, true}) {
        Floats d_weight = d_weight_before, d_bias = d_bias_before;
        const auto device_d_weight = device.upload(d_weight), device_d_bias = device.upload(d_bias);
        cpu.linear_backward_weight(d_y.data(), x.data(), rows, n, k, d_weight.data(),
                                   with_bias ? d_bias.data() : nullptr);
        cuda::linear_backward_weight(device.context(), device_d_y.data(), device_x.data(), rows, n,
                                     k, device_d_weight.data(),
                                     with_bias ? device_d_bias.data() : nullptr);
        CHECK(relative_error(device_d_weight.download(), reference::widen(d_weight)) <=
              tolerance(s.rows));
        CHECK(relative_error(device_d_bias.download(), reference::widen(d_bias)) <=
              tolerance(s.rows));
        if (!with_bias) CHECK(same_bits(device_d_bias.download(), d_bias_before));
      }
    }
  });
}

TEST(no_rows_leave_a_linear_layer_alone) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    const DeviceMatrix weight = device.matrix(normal(6, 1), 3, 2);
    const auto x = device.upload(Floats{1, 2, 3, 4, 5, 6});
    cuda::linear(device.context(), x.data(), 0, weight.view(), x.data(), x.data(), false);
    cuda::linear_backward_input(device.context(), x.data(), 0, weight.view(), x.data(), false);
    cuda::linear_backward_weight(device.context(), x.data(), x.data(), 0, 3, 2, x.data(), x.data());
    CHECK(same_bits(x.download(), Floats{1, 2, 3, 4, 5, 6}));
  });
}

}  // namespace
}  // namespace hindsearch::testing
