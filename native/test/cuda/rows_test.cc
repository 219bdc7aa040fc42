// Row-wise and element-wise kernels but the norm against the CPU backend.
#include "native/test/cuda/head_rows.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

using Sizes = std::vector<std::pair<std::size_t, std::size_t>>;  // rows, width

TEST(rope_matches_the_cpu_and_its_inverse_undoes_it) {
  const auto cpu = reference_backend();
  const DeviceCase device(ComputeType::f32);
  constexpr std::size_t kPositions = 41;
  for (const HeadRows& s : std::vector<HeadRows>{{1, 1, 2, 2},
                                                 {3, 2, 12, 24},
                                                 {33, 3, 24, 77},
                                                 {257, 14, 64, 1152},
                                                 {2, 1, 96, 100},
                                                 {33, 2, 128, 257},
                                                 {2, 5, 256, 1280},
                                                 {3, 70, 64, 4480}}) {
    const std::size_t half = s.width / 2;
    std::vector<std::int32_t> positions(s.rows);
    for (std::size_t r = 0; r < s.rows; ++r) positions[r] = static_cast<std::int32_t>(r * 5 % 41);
    Floats cosines(kPositions * half), sines(kPositions * half);
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      cosines[i] = std::cos(static_cast<float>(i));
      sines[i] = std::sin(static_cast<float>(i));
    }
    Floats before = normal(s.size(), 1);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i % s.stride >= s.heads * s.width) before[i] = kNaN;
    }
    Floats expected = before;
    const auto index = cpu->index(false);
    index->assign({}, positions, {});
    cpu->rope(s.view(expected.data()), *index, cosines.data(), sines.data(), false);

    const auto x = device.upload(before), device_cosines = device.upload(cosines),
               device_sines = device.upload(sines);
    const auto device_positions = device.upload(positions);
    cuda::rope(device.context(), s.view(x.data()), device_positions.data(), device_cosines.data(),
               device_sines.data(), false);
    // Two products and a sum: fused or not.
    CHECK(error_of(x.download(), expected) < 2e-7);
    cuda::rope(device.context(), s.view(x.data()), device_positions.data(), device_cosines.data(),
               device_sines.data(), true);
    CHECK(error_of(x.download(), before) < 5e-7);
  }
}

TEST(silu_gate_matches_the_cpu) {
  const auto cpu = reference_backend();
  const DeviceCase device(ComputeType::f32);
  for (const auto& [rows, width] :
       Sizes{{1, 1}, {2, 2}, {3, 12}, {257, 33}, {33, 64}, {2, 4864}, {3, 4863}, {5, 1028}}) {
    const auto r = static_cast<std::int64_t>(rows), w = static_cast<std::int64_t>(width);
    Floats gate_up = normal(rows * 2 * width, 1, 5);
    gate_up[0] = rows % 2 ? 200.0f : -200.0f;
    const Floats d_out = normal(rows * width, 2);
    Floats out(d_out.size()), d_gate_up = gate_up, again = d_out;
    cpu->silu_gate(gate_up.data(), r, w, out.data());
    cpu->silu_gate_backward(d_gate_up.data(), again.data(), r, w);

    const auto x = device.upload(gate_up), d = device.upload(d_out);
    const auto y = device.upload(Floats(out.size(), kNaN));
    cuda::silu_gate(device.context(), x.data(), r, w, y.data());
    cuda::silu_gate_backward(device.context(), x.data(), d.data(), r, w);
    const Floats actual = y.download(), actual_d = x.download(), actual_again = d.download();
    // Element by element: an exponential within 2 ulp, a quotient and four roundings.
    const auto near = [](const Floats& a, const Floats& b) {
      for (std::size_t i = 0; i < b.size(); ++i) {
        CHECK_NEAR(a[i], b[i], 1e-6 * std::abs(double{b[i]}) + 1e-30);
      }
    };
    near(actual, out);
    near(actual_again, again);
    CHECK(error_of(actual_d, d_gate_up) < 1e-6);
  }
  const Floats extreme = {-200, 1, 200, 1, kNaN, 1};
  const auto x = device.upload(extreme), y = device.floats(3);
  cuda::silu_gate(device.context(), x.data(), 3, 1, y.data());
  const Floats out = y.download();
  CHECK_EQ(out[0], 0.0f);
  CHECK_EQ(out[1], 200.0f);
  CHECK(std::isnan(out[2]));
}

TEST(embedding_reads_and_adds_rows) {
  const DeviceCase device(ComputeType::f32);
  for (const auto& [rows, width] :
       Sizes{{1, 1}, {2, 2}, {3, 33}, {400, 70}, {257, 12}, {33, 2048}, {3, 4865}}) {
    constexpr std::size_t kVocabulary = 19;
    const Floats table = normal(kVocabulary * width, 1), d_out = normal(rows * width, 2);
    const auto tokens = tokens_below(rows, kVocabulary, 3);
    const auto w = static_cast<std::int64_t>(width);

    const auto device_table = device.upload(table), out = device.upload(Floats(rows * width, kNaN));
    const auto device_tokens = device.upload(tokens);
    cuda::gather(device.context(), device_tokens.data(), static_cast<std::int64_t>(rows),
                 device_table.data(), w, out.data());
    const Floats read = out.download();

    Floats d_table = normal(table.size(), 4);
    const auto device_d_table = device.upload(d_table), device_d_out = device.upload(d_out);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t at = static_cast<std::size_t>(tokens[r]) * width;
      CHECK(same_bits(&read[r * width], &table[at], width));
      for (std::size_t i = 0; i < width; ++i) d_table[at + i] += d_out[r * width + i];
    }

    std::vector<Token> ids = tokens;
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::vector<std::int32_t> begin = {0}, order;
    for (const Token id : ids) {
      for (std::size_t r = 0; r < rows; ++r) {
        if (tokens[r] == id) order.push_back(static_cast<std::int32_t>(r));
      }
      begin.push_back(static_cast<std::int32_t>(order.size()));
    }
    const auto device_ids = device.upload(ids);
    const auto device_begin = device.upload(begin), device_order = device.upload(order);
    cuda::scatter_add(device.context(),
                      {.count = static_cast<std::int32_t>(ids.size()),
                       .tokens = device_ids.data(),
                       .begin = device_begin.data(),
                       .rows = device_order.data()},
                      device_d_out.data(), w, device_d_table.data());
    CHECK(same_bits(device_d_table.download(), d_table));  // row order exactly
  }
}

TEST(element_wise_ops) {
  const DeviceCase device(ComputeType::f32);
  // The offset takes the wide loads away.
  for (const std::size_t offset : {0, 1}) {
    for (const std::size_t count : {1, 3, 4, 7, 8, 9, 33, 2048, 100003}) {
      const auto n = static_cast<std::int64_t>(count);
      Floats x = normal(offset + count, 1);
      const Floats y = normal(offset + count, 2);
      const auto device_x = device.upload(x), device_y = device.upload(y);
      cuda::add(device.context(), device_x.data() + offset, device_y.data() + offset, n);
      const Floats sum = device_y.download();
      for (std::size_t i = offset; i < sum.size(); ++i) CHECK_EQ(sum[i], y[i] + x[i]);
      if (offset) CHECK_EQ(sum[0], y[0]);

      cuda::zero(device.context(), device_y.data() + offset, n - 1);
      const Floats zeros = device_y.download();
      for (std::size_t i = offset; i + 1 < zeros.size(); ++i) CHECK_EQ(zeros[i], 0.0f);
      CHECK_EQ(zeros.back(), sum.back());

      const auto halves = device.array<cuda::bf16>(offset + count);
      cuda::to_bf16(device.context(), device_x.data() + offset, halves.data() + offset, n);
      const std::vector<cuda::bf16> rounded = halves.download();
      for (std::size_t i = offset; i < rounded.size(); ++i) {
        CHECK_EQ(cuda::to_float(rounded[i]), reference::operand(x[i], ComputeType::bf16));
      }
    }
  }
}

TEST(bf16_rounds_to_nearest_even) {
  const DeviceCase device(ComputeType::bf16);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x = {1.00390625f, 1.01171875f, -1.00390625f, kInfinity,   -kInfinity,
                    3.4e38f,     0.0f,        -0.0f,        0x1.3p-133f, kNaN};
  const Floats expected = {1.0f,      1.015625f, -1.0f, kInfinity, -kInfinity,
                           kInfinity, 0.0f,      -0.0f, 0x1p-133f, kNaN};
  const auto from = device.upload(x);
  const auto halves = device.array<cuda::bf16>(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  cuda::to_bf16(device.context(), from.data(), halves.data(), n);
  const std::vector<cuda::bf16> rounded = halves.download();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float actual = cuda::to_float(rounded[i]);
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(actual));
    } else {
      CHECK(same_bits(&actual, &expected[i], 1));
    }
  }
}

TEST(bias_and_column_sums) {
  const DeviceCase device(ComputeType::f32);
  // One stage of sums, two and three.
  for (const auto& [rows, width] : Sizes{{1, 1},
                                         {2, 33},
                                         {3, 4865},
                                         {33, 64},
                                         {257, 12},
                                         {512, 31},
                                         {513, 96},
                                         {3000, 36},
                                         {140000, 2}}) {
    const auto r = static_cast<std::int64_t>(rows), w = static_cast<std::int64_t>(width);
    const Floats x = normal(rows * width, 1), bias = normal(width, 2), before = normal(width, 3);
    const auto device_x = device.upload(x), device_bias = device.upload(bias);
    Floats first;
    std::vector<double> expected = reference::widen(before);
    for (std::size_t i = 0; i < x.size(); ++i) expected[i % width] += x[i];
    for (int run = 0; run < 2; ++run) {
      const auto sums = device.upload(before);
      cuda::column_sums(device.context(), device_x.data(), r, w, sums.data());
      const Floats actual = sums.download();
      // Chains of at most 32 terms: their error is far below that of the terms' own sum.
      CHECK(relative_error(actual, expected) < 2e-6);
      if (run == 0) first = actual;
      CHECK(same_bits(actual, first));
    }
    if (rows > 1000) continue;
    const auto fresh = device.upload(Floats(x.size(), kNaN));
    cuda::broadcast(device.context(), device_bias.data(), fresh.data(), r, w);
    const Floats only = fresh.download();
    for (std::size_t i = 0; i < x.size(); ++i) CHECK_EQ(only[i], bias[i % width]);
  }
}

TEST(no_rows_are_nothing_to_do) {
  const DeviceCase device(ComputeType::f32);
  const auto x = device.upload(Floats{1, 2, 3, 4});
  const cuda::Context& context = device.context();
  const HeadsView none{x.data(), 0, 1, 2, 2};
  cuda::zero(context, x.data(), 0);
  cuda::add(context, x.data(), x.data(), 0);
  cuda::broadcast(context, x.data(), x.data(), 0, 2);
  cuda::column_sums(context, x.data(), 0, 2, x.data());
  cuda::gather(context, nullptr, 0, x.data(), 2, x.data());
  cuda::scatter_add(context, {}, x.data(), 2, x.data());
  cuda::rms_norm(context, none, x.data(), 1e-6f, none, nullptr);
  cuda::rms_norm_backward(context, none, nullptr, x.data(), none, none, x.data());
  cuda::rope(context, none, nullptr, x.data(), x.data(), false);
  cuda::silu_gate(context, x.data(), 0, 2, x.data());
  cuda::silu_gate_backward(context, x.data(), x.data(), 0, 2);
  CHECK_EQ(cuda::sum_of_squares(context, x.data(), 0), 0.0);
  CHECK(same_bits(x.download(), Floats{1, 2, 3, 4}));
}

}  // namespace
}  // namespace hindsearch::testing
