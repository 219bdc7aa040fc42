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
      const auto check = [&](const Base& base, const Base& device_base,
                             const DeviceArray<float>& device_y) {
        Floats y = nothing;
        cpu.linear(as_operand(x.data(), k), rows, *packed, base, y.data(), nullptr);
        cuda::linear(device.context(), as_operand(device_x.data(), k), rows, weight.view(),
                     device_base, device_y.data());
        CHECK(relative_error(device_y.download(), reference::widen(y)) <= tolerance(s.k));
      };
      const auto fresh = device.upload(nothing), in_place = device.upload(before),
                 device_before = device.upload(before);
      check({}, {}, fresh);
      check(bias_of(bias.data()), bias_of(device_bias.data()), fresh);
      check(rows_of(before.data()), rows_of(device_before.data()), fresh);
      check(rows_of(before.data()), rows_of(in_place.data()), in_place);
      CHECK(same_bits(device_before.download(), before));
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
                   d_y = normal(s.rows * s.n, 3), d_weight_before = normal(s.n * s.k, 5),
                   d_bias_before = normal(s.n, 6);
      const auto packed = cpu.pack(w.data(), n, k);
      const auto device_x = device.upload(x), device_d_y = device.upload(d_y);
      const DeviceMatrix weight = device.matrix(w, n, k);
      Floats d_x(x.size(), std::numeric_limits<float>::quiet_NaN());
      const auto device_d_x = device.upload(d_x);
      cpu.linear_backward_input(as_operand(d_y.data(), n), rows, *packed, w.data(), d_x.data());
      cuda::linear_backward_input(device.context(), as_operand(device_d_y.data(), n), rows,
                                  weight.view(), device_d_x.data());
      CHECK(relative_error(device_d_x.download(), reference::widen(d_x)) <= tolerance(s.n));
      for (const bool with_bias : {false, true}) {
        Floats d_weight = d_weight_before, d_bias = d_bias_before;
        const auto device_d_weight = device.upload(d_weight), device_d_bias = device.upload(d_bias);
        cpu.linear_backward_weight(as_operand(d_y.data(), n), as_operand(x.data(), k), rows, n, k,
                                   d_weight.data(), with_bias ? d_bias.data() : nullptr);
        cuda::linear_backward_weight(
            device.context(), as_operand(device_d_y.data(), n), as_operand(device_x.data(), k),
            rows, n, k, device_d_weight.data(), with_bias ? device_d_bias.data() : nullptr);
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
    const Operand none = as_operand(x.data(), 2);
    cuda::linear(device.context(), none, 0, weight.view(), bias_of(x.data()), x.data());
    cuda::linear_backward_input(device.context(), none, 0, weight.view(), x.data());
    cuda::linear_backward_weight(device.context(), none, none, 0, 3, 2, x.data(), x.data());
    CHECK(same_bits(x.download(), Floats{1, 2, 3, 4, 5, 6}));
  });
}

// What an op wrote for products is to them what it would have been as floats: a product with the
// one matrix shows the numbers, which floats are rounded to as well.
TEST(operands_are_rounded_as_products_round) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    for (const auto& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {3, 7}, {33, 12}, {257, 33}, {5, 1028}}) {
      const auto count = static_cast<std::size_t>(rows * width);
      const auto square = static_cast<std::size_t>(width * width);
      Floats one(square, 0.0f);
      for (std::size_t i = 0; i < square; i += static_cast<std::size_t>(width) + 1) one[i] = 1;
      const DeviceMatrix identity = device.matrix(one, width, width);
      const auto shown = [&](const Operand& x) {
        const auto y = device.floats(count);
        cuda::linear(device.context(), x, rows, identity.view(), {}, y.data());
        return y.download();
      };
      const auto x = device.upload(normal(2 * count, 1)), weight = device.upload(normal(count, 2)),
                 out = device.floats(count), floats = device.floats(count),
                 inv = device.floats(static_cast<std::size_t>(rows)),
                 other = device.floats(inv.size());
      const Operand normed = cuda::rms_norm_operand(device.context(), x.data(), rows, width,
                                                    weight.data(), 1e-6f, out.data(), inv.data());
      CHECK_EQ(normed.rounded, device.compute() == ComputeType::bf16);
      const Floats norm = shown(normed);
      cuda::rms_norm(device.context(), {x.data(), rows, 1, width, width}, weight.data(), 1e-6f,
                     {floats.data(), rows, 1, width, width}, other.data());
      CHECK(same_bits(norm, shown(as_operand(floats.data(), width))));
      CHECK(same_bits(inv.download(), other.download()));

      // The backward leaves the gate's result as floats.
      const auto again = device.upload(normal(count, 3)), gates = device.upload(x.download());
      const Floats gated =
          shown(cuda::silu_gate(device.context(), x.data(), rows, width, out.data()));
      cuda::silu_gate_backward(device.context(), gates.data(), again.data(), rows, width);
      CHECK(same_bits(gated, shown(as_operand(again.data(), width))));
    }
  });
}

}  // namespace
}  // namespace hindsearch::testing
