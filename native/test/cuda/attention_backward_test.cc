// The gradient of attention against the CPU backend and against float64.
#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <span>

#include "native/backend/cuda/runtime/pass_index.h"
#include "native/test/cuda/device_case.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const float kTwoNans = std::bit_cast<float>(0x7fc07fc0u);  // also as two bf16
constexpr std::int32_t kLayers = 2, kLayer = 1;

struct Shape {
  std::int32_t heads, kv_heads, width;
  std::vector<std::int32_t> lengths;
  std::int32_t gap = 0;  // unused columns at the end of a row
  float size = 1;        // of q, k, v and do
};

// Groups of 1, 2, 7, 8 and 10; sequences of one row between others; lengths on both sides of a
// page, of a step and of a tile; every width that kernels are made for, and some between; rows at
// 16-byte boundaries and not.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {3, 3, 32, {1, 2, 15, 16, 17, 100}},
      {4, 2, 8, {33, 1, 7}, 3},
      {14, 2, 64, {49, 65}},
      {8, 1, 24, {40}, 4},
      {2, 2, 128, {20, 96}},
      {10, 1, 12, {21}},
      {1, 1, 2, {18}, 1},
      {2, 1, 64, {300}},
      {8, 1, 128, {63, 64}, 1},
      {2, 1, 96, {130, 1}},
      {2, 1, 160, {48}},
      {2, 1, 256, {129}},
      {1, 1, 64, {40}, 0, 3},
  };
  return all;
}

// A packed batch of whole sequences with q, k and v side by side, as a model holds them; for bf16
// all that a matrix product rounds is rounded already, so that the same numbers are expected but
// for the roundings inside.
struct Batch {
  Shape shape;
  std::int64_t rows = 0, stride = 0;
  Floats qkv, d_out;
  std::int32_t page_count = 0;
  std::vector<std::vector<std::int32_t>> pages;
  std::vector<SequenceRows> sequences;
  std::vector<std::int32_t> zeros;  // tokens and positions are nothing to attention

  Batch(const Shape& s, ComputeType compute) : shape(s) {
    stride = (s.heads + 2 * s.kv_heads) * s.width + s.gap;
    for (const std::int32_t length : s.lengths) {
      rows += length;
      page_count += (length + kPageTokens - 1) / kPageTokens;
    }
    qkv = normal(static_cast<std::size_t>(rows * stride), 11, s.size);
    d_out = normal(static_cast<std::size_t>(rows * out_width()), 12, s.size);
    if (compute == ComputeType::bf16) {
      qkv = widened(narrowed(qkv));
      d_out = widened(narrowed(d_out));
    }
    zeros.resize(static_cast<std::size_t>(rows));
    std::int64_t row = 0;
    std::int32_t page = page_count;
    for (const std::int32_t length : s.lengths) {
      auto& own = pages.emplace_back();
      // Descending and so not contiguous.
      for (std::int32_t p = 0; p < length; p += kPageTokens) own.push_back(--page);
      sequences.push_back({row, length, 0, own.data()});
      row += length;
    }
  }
  Batch(const Batch&) = delete;

  std::int64_t out_width() const { return std::int64_t{shape.heads} * shape.width; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.width)); }
  std::int64_t first_key() const { return out_width(); }
  std::int64_t first_value() const { return first_key() + kv_width(); }
  std::int64_t kv_width() const { return std::int64_t{shape.kv_heads} * shape.width; }

  HeadsView queries(float* all) const { return {all, rows, shape.heads, shape.width, stride}; }
  HeadsView keys(float* all) const {
    return {all + first_key(), rows, shape.kv_heads, shape.width, stride};
  }
  HeadsView values(float* all) const {
    return {all + first_value(), rows, shape.kv_heads, shape.width, stride};
  }
};

// What the forward leaves, and the gradient expected.
struct Expected {
  Floats out, statistics, gradient;
};
Expected on_cpu(Batch& batch, Backend& cpu) {
  KvPages cache = cpu.kv_pages(kLayers, batch.shape.kv_heads, batch.shape.width);
  Floats memory(static_cast<std::size_t>(cache.page_floats * batch.page_count), kNan);
  cache.data = memory.data();
  const std::unique_ptr<PassIndex> index = cpu.index(false);
  index->assign(batch.zeros, batch.zeros, batch.sequences);
  Expected expected{Floats(batch.d_out.size()),
                    Floats(static_cast<std::size_t>(batch.rows * batch.shape.heads * 2)),
                    Floats(batch.qkv.size(), kNan)};
  float* const qkv = batch.qkv.data();
  cpu.write_kv(batch.keys(qkv), batch.values(qkv), *index, cache, kLayer);
  cpu.attention(batch.queries(qkv), *index, cache, kLayer, batch.scale(), expected.out.data(),
                expected.statistics.data());
  float* const gradient = expected.gradient.data();
  cpu.attention_backward(batch.queries(qkv), *index, cache, kLayer, batch.scale(),
                         expected.out.data(), expected.statistics.data(), batch.d_out.data(),
                         batch.queries(gradient), batch.keys(gradient), batch.values(gradient));
  return expected;
}

// Pages hold NaN where no key is, and the gradient is NaN before.
Floats on_device(const Batch& batch, const DeviceCase& device, const Floats& out,
                 const Floats& statistics) {
  const cuda::Context& context = device.context();
  const std::int64_t page_floats = std::int64_t{2} * kLayers * batch.kv_width() * kPageTokens /
                                   (device.compute() == ComputeType::bf16 ? 2 : 1);
  const auto memory =
      device.upload(Floats(static_cast<std::size_t>(page_floats * batch.page_count), kTwoNans));
  const KvPages cache{memory.data(), kLayers, batch.shape.kv_heads, batch.shape.width, page_floats};
  cuda::CudaPassIndex index(context, false);
  index.assign(batch.zeros, batch.zeros, batch.sequences);
  const auto qkv = device.upload(batch.qkv), d_out = device.upload(batch.d_out);
  const auto device_out = device.upload(out), device_statistics = device.upload(statistics);
  const auto gradient = device.upload(Floats(batch.qkv.size(), kNan));
  cuda::write_kv(context, batch.keys(qkv.data()), batch.values(qkv.data()), index.pass(), cache,
                 kLayer);
  cuda::attention_backward(context, batch.queries(qkv.data()), index.pass(), cache, kLayer,
                           batch.scale(), device_out.data(), device_statistics.data(), d_out.data(),
                           batch.queries(gradient.data()), batch.keys(gradient.data()),
                           batch.values(gradient.data()));
  return gradient.download();
}

// Columns [begin, begin + width) of every row.
Floats columns(const Batch& batch, const Floats& all, std::int64_t begin, std::int64_t width) {
  Floats out;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const float* from = all.data() + row * batch.stride + begin;
    out.insert(out.end(), from, from + width);
  }
  return out;
}

// |actual - expected| / |expected| in the Euclidean norm.
double norm_error(const Floats& actual, const std::vector<double>& expected) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    scale += expected[i] * expected[i];
  }
  return std::sqrt(error / scale);
}

// f32: sums of up to some hundred terms in another order. bf16: p and ds are rounded before they
// are multiplied, each by at most 2^-8 of itself, and 2^-8 / sqrt(3) = 0.0023 in the mean of
// squares. Roundings are as good as independent, so in that mean a sum is off by as much of itself
// as its terms, and nowhere by more than a few times that.
void check_close(ComputeType compute, const Floats& actual, const std::vector<double>& expected) {
  const bool f32 = compute == ComputeType::f32;
  CHECK_NEAR(relative_error(actual, expected), 0, f32 ? 1e-5 : 1.0 / 128);
  CHECK_NEAR(norm_error(actual, expected), 0, f32 ? 1e-6 : 0.0025);
}

void check_gradient(const Batch& batch, ComputeType compute, const Floats& actual,
                    const std::vector<double>& expected) {
  const Floats narrow(expected.begin(), expected.end());
  const std::int64_t parts[3][2] = {{0, batch.out_width()},
                                    {batch.first_key(), batch.kv_width()},
                                    {batch.first_value(), batch.kv_width()}};
  for (const auto& [begin, width] : parts) {
    check_close(compute, columns(batch, actual, begin, width),
                reference::widen(columns(batch, narrow, begin, width)));
  }
  const std::int64_t used = batch.stride - batch.shape.gap;
  for (const float x : columns(batch, actual, used, batch.shape.gap)) CHECK(std::isnan(x));
}

TEST(attention_backward_matches_the_cpu) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const Shape& shape : shapes()) {
      Batch batch(shape, device.compute());
      const Expected expected = on_cpu(batch, cpu);
      const Floats actual = on_device(batch, device, expected.out, expected.statistics);
      check_gradient(batch, device.compute(), actual, reference::widen(expected.gradient));
    }
  });
}

// [T, D] of a head of sequence b, which lies in rows of `stride` from column `begin` on.
reference::Values head_of(const Batch& batch, std::size_t b, const Floats& all, std::int64_t stride,
                          std::int64_t begin) {
  reference::Values out;
  for (std::int32_t r = 0; r < batch.sequences[b].rows; ++r) {
    const float* from = all.data() + (batch.sequences[b].first_row + r) * stride + begin;
    out.insert(out.end(), from, from + batch.shape.width);
  }
  return out;
}

TEST(attention_backward_matches_float64) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const Shape& shape : shapes()) {
      Batch batch(shape, device.compute());
      const Expected forward = on_cpu(batch, cpu);
      const Floats actual = on_device(batch, device, forward.out, forward.statistics);
      const std::int64_t d = shape.width;
      reference::Values expected(actual.size());
      const auto add = [&](std::size_t b, std::int64_t begin, const reference::Values& part) {
        for (std::size_t i = 0; i < part.size(); ++i) {
          const std::int64_t row = batch.sequences[b].first_row + static_cast<std::int64_t>(i) / d;
          expected[static_cast<std::size_t>(row * batch.stride + begin) +
                   i % static_cast<std::size_t>(d)] += part[i];
        }
      };
      for (std::size_t b = 0; b < batch.sequences.size(); ++b) {
        const auto t = static_cast<std::size_t>(shape.lengths[b]),
                   n = t * static_cast<std::size_t>(d);
        for (std::int32_t h = 0; h < shape.heads; ++h) {
          const std::int64_t kv = h / (shape.heads / shape.kv_heads), query = h * d,
                             key = batch.first_key() + kv * d, value = batch.first_value() + kv * d;
          reference::Values d_q(n), d_k(n), d_v(n);
          reference::attention_gradient(head_of(batch, b, batch.qkv, batch.stride, query),
                                        head_of(batch, b, batch.qkv, batch.stride, key),
                                        head_of(batch, b, batch.qkv, batch.stride, value),
                                        head_of(batch, b, batch.d_out, batch.out_width(), query), t,
                                        static_cast<std::size_t>(d), batch.scale(), d_q, d_k, d_v);
          add(b, query, d_q);
          add(b, key, d_k);
          add(b, value, d_v);
        }
      }
      check_gradient(batch, device.compute(), actual, expected);
    }
  });
}

// The softmax over one key is constant: the gradient of q and k is zero but for the roundings of
// two sums that cancel, also where do is not a bf16.
TEST(attention_backward_of_single_tokens) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const std::int32_t width : {24, 64, 128}) {
      Batch batch({4, 2, width, {1, 1, 1}}, device.compute());
      const Floats d_out = normal(batch.d_out.size(), 13);
      batch.d_out = d_out;
      const Expected forward = on_cpu(batch, cpu);
      const Floats actual = on_device(batch, device, forward.out, forward.statistics);
      for (const float x : columns(batch, actual, 0, batch.first_value())) {
        CHECK_NEAR(x, 0, 1e-5);
      }
      for (std::int64_t row = 0; row < batch.rows; ++row) {
        for (std::int64_t i = 0; i < batch.kv_width(); ++i) {
          // Heads 2 kv and 2 kv + 1 share key/value head kv.
          const std::int64_t first = row * batch.out_width() + i / width * 2 * width + i % width;
          const double expected =
              reference::operand(d_out[static_cast<std::size_t>(first)], device.compute()) +
              reference::operand(d_out[static_cast<std::size_t>(first + width)], device.compute());
          CHECK_NEAR(actual[static_cast<std::size_t>(row * batch.stride + batch.first_value() + i)],
                     expected, 1e-6);
        }
      }
    }
  });
}

TEST(attention_backward_does_not_depend_on_the_run_or_the_batch) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    Batch batch({6, 2, 64, {150, 1, 70, 90}}, device.compute());
    const Expected forward = on_cpu(batch, cpu);
    const Floats together = on_device(batch, device, forward.out, forward.statistics);
    CHECK(same_bits(on_device(batch, device, forward.out, forward.statistics), together));
    for (std::size_t b = 0; b < batch.sequences.size(); ++b) {
      Shape shape = batch.shape;
      shape.lengths = {batch.shape.lengths[b]};
      Batch single(shape, device.compute());
      const auto rows = [&](const Floats& all) {
        const auto width = static_cast<std::ptrdiff_t>(all.size()) / batch.rows;
        const auto begin = all.begin() + batch.sequences[b].first_row * width;
        return Floats(begin, begin + shape.lengths[0] * width);
      };
      single.qkv = rows(batch.qkv);
      single.d_out = rows(batch.d_out);
      CHECK(same_bits(on_device(single, device, rows(forward.out), rows(forward.statistics)),
                      rows(together)));
    }
  });
}

}  // namespace
}  // namespace hindsearch::testing
