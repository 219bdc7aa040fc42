// Row-wise and element-wise ops.
#include <algorithm>
#include <limits>

#include "native/test/backends.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of a float near `expected`.
double ulps(float actual, double expected) {
  const float near = static_cast<float>(expected);
  return std::abs(actual - expected) / (std::nextafter(std::abs(near), kInfinity) - std::abs(near));
}

TEST(exponential_is_within_1_1_ulp) {
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    constexpr std::size_t kCount = 400000;
    Floats x(kCount), y(kCount);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(-87.3 + 175.6 * i / kCount);
    kernels->rows->exponentials(x.data(), kCount, 1, 0, y.data());
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      worst = std::max(worst, ulps(y[i], std::exp(double{x[i]})));
    CHECK(worst < 1.1);

    const Floats special = {0, -kInfinity, kInfinity, kNaN, -87.4f, -1000, 89, 1e30f, -0.0f};
    const Floats expected = {1, 0, kInfinity, kNaN, 0, 0, kInfinity, kInfinity, 1};
    Floats result(special.size());
    kernels->rows->exponentials(special.data(), static_cast<std::int64_t>(special.size()), 1, 0,
                                result.data());
    for (std::size_t i = 0; i < special.size(); ++i) {
      CHECK(result[i] == expected[i] || (std::isnan(result[i]) && std::isnan(expected[i])));
    }
  }
}

struct Shape {
  std::size_t rows, heads, width, stride;
};
const std::vector<Shape> kShapes = {{1, 1, 1, 1},    {5, 1, 96, 96},   {300, 1, 33, 40},
                                    {3, 4, 8, 50},   {65, 3, 32, 110}, {2, 2, 128, 256},
                                    {700, 1, 96, 96}};

TEST(rms_norm_matches_float64) {
  for_instruction_sets([](Backend& backend) {
    for (const Shape& s : kShapes) {
      constexpr float kEpsilon = 1e-5f;
      const auto heads = static_cast<std::int64_t>(s.heads),
                 width = static_cast<std::int64_t>(s.width),
                 rows = static_cast<std::int64_t>(s.rows),
                 stride = static_cast<std::int64_t>(s.stride);
      const Floats x = normal(s.rows * s.stride, 1, 3), weight = normal(s.width, 2),
                   d_y = normal(x.size(), 3);
      Floats y(x.size()), inv_rms(s.rows * s.heads), d_x = normal(x.size(), 4),
                                                     d_weight = normal(s.width, 5);
      auto expected_y = reference::widen(y), expected_dx = reference::widen(d_x),
           expected_dw = reference::widen(d_weight);
      const ConstHeadsView xs{x.data(), rows, heads, width, stride},
          dys{d_y.data(), rows, heads, width, stride};
      backend.rms_norm(xs, weight.data(), kEpsilon, {y.data(), rows, heads, width, stride},
                       inv_rms.data());
      backend.rms_norm_backward(xs, inv_rms.data(), weight.data(), dys,
                                {d_x.data(), rows, heads, width, stride}, d_weight.data());
      for (std::size_t r = 0; r < s.rows; ++r) {
        for (std::size_t h = 0; h < s.heads; ++h) {
          const std::size_t at = r * s.stride + h * s.width;
          double squares = 0, dot = 0;
          for (std::size_t i = 0; i < s.width; ++i) squares += double{x[at + i]} * x[at + i];
          const double n = static_cast<double>(s.width),
                       inv = 1 / std::sqrt(squares / n + kEpsilon);
          CHECK_NEAR(inv_rms[r * s.heads + h], inv, 1e-6 * inv);
          for (std::size_t i = 0; i < s.width; ++i)
            dot += double{d_y[at + i]} * weight[i] * x[at + i];
          for (std::size_t i = 0; i < s.width; ++i) {
            expected_y[at + i] = x[at + i] * inv * weight[i];
            expected_dw[i] += d_y[at + i] * x[at + i] * inv;
            expected_dx[at + i] +=
                inv * (d_y[at + i] * weight[i] - x[at + i] * inv * inv * dot / n);
          }
        }
      }
      CHECK(relative_error(y, expected_y) < 1e-6);
      CHECK(relative_error(d_x, expected_dx) < 2e-6);
      CHECK(relative_error(d_weight, expected_dw) < 2e-6);

      // In place, and one row alone.
      Floats in_place = x, alone(x.size());
      const HeadsView own{in_place.data(), rows, heads, width, stride};
      backend.rms_norm(own, weight.data(), kEpsilon, own, nullptr);
      for (std::size_t r = 0; r < s.rows; ++r) {
        backend.rms_norm({&x[r * s.stride], 1, heads, width, stride}, weight.data(), kEpsilon,
                         {&alone[r * s.stride], 1, heads, width, stride}, nullptr);
        CHECK(same_bits(&alone[r * s.stride], &y[r * s.stride], s.heads * s.width));
        CHECK(same_bits(&in_place[r * s.stride], &y[r * s.stride], s.heads * s.width));
      }
    }
  });
}

TEST(rope_matches_float64_and_its_inverse_undoes_it) {
  for_instruction_sets([](Backend& backend) {
    for (const std::size_t width : {2, 8, 24, 32, 128}) {
      constexpr std::size_t kRows = 37, kHeads = 3;
      const std::size_t half = width / 2, stride = kHeads * width + 5;
      std::vector<std::int32_t> positions(kRows);
      for (std::size_t r = 0; r < kRows; ++r) positions[r] = static_cast<std::int32_t>(r * 5 % 41);
      Floats cosines(41 * half), sines(41 * half);
      for (std::size_t i = 0; i < cosines.size(); ++i) {
        cosines[i] = std::cos(static_cast<float>(i));
        sines[i] = std::sin(static_cast<float>(i));
      }
      const Floats before = normal(kRows * stride, 1);
      Floats x = before;
      const HeadsView view{x.data(), kRows, kHeads, static_cast<std::int64_t>(width),
                           static_cast<std::int64_t>(stride)};
      const auto index = backend.index(false);
      index->assign({}, positions, {});
      backend.rope(view, *index, cosines.data(), sines.data(), false);
      auto expected = reference::widen(before);
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t h = 0; h < kHeads; ++h) {
          for (std::size_t i = 0; i < half; ++i) {
            const std::size_t low = r * stride + h * width + i, high = low + half;
            const std::size_t at = static_cast<std::size_t>(positions[r]) * half + i;
            expected[low] = double{before[low]} * cosines[at] - double{before[high]} * sines[at];
            expected[high] = double{before[high]} * cosines[at] + double{before[low]} * sines[at];
          }
        }
      }
      CHECK(relative_error(x, expected) < 2e-7);
      backend.rope(view, *index, cosines.data(), sines.data(), true);
      CHECK(relative_error(x, reference::widen(before)) < 5e-7);
    }
  });
}

TEST(silu_gate_matches_float64) {
  for_instruction_sets([](Backend& backend) {
    for (const std::size_t width : {1, 16, 33, 192}) {
      constexpr std::size_t kRows = 40;
      Floats gate_up = normal(kRows * 2 * width, 1, 5);
      gate_up[0] = 200;
      const Floats d_out = normal(kRows * width, 2);
      Floats out(d_out.size());
      std::vector<double> expected(out.size()), expected_d(gate_up.size());
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t i = 0; i < width; ++i) {
          const std::size_t at = r * 2 * width + i;
          const double g = gate_up[at], u = gate_up[at + width], d = d_out[r * width + i];
          const double sigmoid = 1 / (1 + std::exp(-g));
          expected[r * width + i] = g * sigmoid * u;
          expected_d[at] = d * u * sigmoid * (1 + g * (1 - sigmoid));
          expected_d[at + width] = d * g * sigmoid;
        }
      }
      backend.silu_gate(gate_up.data(), kRows, static_cast<std::int64_t>(width), out.data());
      Floats d_gate_up = gate_up, again = d_out;
      backend.silu_gate_backward(d_gate_up.data(), again.data(), kRows,
                                 static_cast<std::int64_t>(width));
      CHECK(same_bits(again, out));
      for (std::size_t i = 0; i < out.size(); ++i) {
        CHECK_NEAR(out[i], expected[i], 5e-7 * std::abs(expected[i]) + 1e-30);
      }
      CHECK(relative_error(d_gate_up, expected_d) < 1e-6);
    }
    const Floats extreme = {-200, 1, 200, 1, kNaN, 1};
    for (std::size_t i = 0; i < extreme.size(); i += 2) {
      float out;
      backend.silu_gate(&extreme[i], 1, 1, &out);
      if (extreme[i] < 0) CHECK_EQ(out, 0.0f);
      if (extreme[i] > 0) CHECK_EQ(out, extreme[i]);
      if (std::isnan(extreme[i])) CHECK(std::isnan(out));
    }
  });
}

TEST(embedding_reads_and_adds_rows) {
  for_instruction_sets([](Backend& backend) {
    constexpr std::size_t kVocabulary = 19, kWidth = 70, kRows = 400;
    const Floats table = normal(kVocabulary * kWidth, 1), d_out = normal(kRows * kWidth, 2);
    const auto tokens = tokens_below(kRows, kVocabulary, 3);
    Floats out(kRows * kWidth);
    const auto index = backend.index(false);
    index->assign(tokens, {}, {});
    backend.embed(*index, table.data(), kWidth, out.data());
    Floats expected(kVocabulary * kWidth), d_table(kVocabulary * kWidth);
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto token = static_cast<std::size_t>(tokens[r]);
      CHECK(same_bits(&out[r * kWidth], &table[token * kWidth], kWidth));
      for (std::size_t i = 0; i < kWidth; ++i)
        expected[token * kWidth + i] += d_out[r * kWidth + i];
    }
    for (const int threads : {1, 2}) {
      const Threads scope(threads);
      std::fill(d_table.begin(), d_table.end(), 0.0f);
      backend.embed_backward(*index, d_out.data(), kWidth, d_table.data());
      CHECK(same_bits(d_table, expected));  // row order exactly
    }
  });
}

TEST(row_ops_do_not_depend_on_threads) {
  for_instruction_sets([](Backend& backend) {
    constexpr std::int64_t kRows = 3000, kWidth = 96;
    const Floats x = normal(kRows * kWidth * 2, 1), weight = normal(kWidth, 2),
                 d_y = normal(kRows * kWidth, 3);
    std::vector<Floats> first;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      Floats y(d_y.size()), inv(kRows), d_x(d_y.size()), d_weight(kWidth), gated(d_y.size());
      Floats d_gate = x, d_gated = d_y;
      const ConstHeadsView xs{x.data(), kRows, 1, kWidth, kWidth},
          dys{d_y.data(), kRows, 1, kWidth, kWidth};
      backend.rms_norm(xs, weight.data(), 1e-6f, {y.data(), kRows, 1, kWidth, kWidth}, inv.data());
      backend.rms_norm_backward(xs, inv.data(), weight.data(), dys,
                                {d_x.data(), kRows, 1, kWidth, kWidth}, d_weight.data());
      backend.silu_gate(x.data(), kRows, kWidth, gated.data());
      backend.silu_gate_backward(d_gate.data(), d_gated.data(), kRows, kWidth);
      backend.add(d_y.data(), gated.data(), kRows * kWidth);
      std::vector<Floats> all = {y, inv, d_x, d_weight, gated, d_gate, d_gated};
      if (threads == 1) first = all;
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(same_bits(all[i], first[i]));
    }
  });
}

TEST(memory_ops) {
  const auto backend = make_backend(ComputeType::f32);
  constexpr std::int64_t kCount = 100003;
  const Floats host = normal(kCount, 1);
  const auto buffer = backend->allocate(kCount), other = backend->allocate(kCount);
  backend->upload(host.data(), buffer->data(), kCount);
  backend->copy(buffer->data(), other->data(), kCount);
  backend->add(buffer->data(), other->data(), kCount);
  backend->zero(buffer->data(), kCount - 1);
  Floats back(kCount);
  backend->download(other->data(), back.data(), kCount);
  for (std::size_t i = 0; i < back.size(); ++i) CHECK_EQ(back[i], host[i] + host[i]);
  backend->download(buffer->data(), back.data(), kCount);
  for (std::size_t i = 0; i + 1 < back.size(); ++i) CHECK_EQ(back[i], 0.0f);
  CHECK_EQ(back.back(), host.back());
}

TEST(scratch_is_used_again) {
  const auto backend = make_backend(ComputeType::f32), other = make_backend(ComputeType::bf16);
  constexpr std::int64_t kCount = 1 << 20;
  auto buffer = backend->scratch(kCount);
  CHECK_EQ(buffer->size(), kCount);
  buffer->data()[kCount - 1] = 1;
  const float* memory = buffer->data();
  buffer.reset();
  // By any backend, for about the same size, and by one buffer at a time.
  const auto again = other->scratch(kCount - 1000), beside = backend->scratch(kCount);
  CHECK(again->data() == memory);
  CHECK(beside->data() != memory);
  CHECK_ERROR(code::kOutOfMemory, backend->scratch(std::int64_t{1} << 55));
}

TEST(an_impossible_allocation_is_an_error) {
  const auto backend = make_backend(ComputeType::f32);
  CHECK_ERROR(code::kOutOfMemory, backend->allocate(std::int64_t{1} << 62));
  CHECK_ERROR(code::kOutOfMemory, backend->allocate(std::int64_t{1} << 55));
  const auto buffer = backend->allocate(1000);
  CHECK_EQ(buffer->size(), 1000);
  for (std::int64_t i = 0; i < buffer->size(); ++i) CHECK_EQ(buffer->data()[i], 0.0f);
}

}  // namespace
}  // namespace hindsearch::testing
