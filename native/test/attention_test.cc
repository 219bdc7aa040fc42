#include <algorithm>
#include <limits>
#include <span>

#include "native/backend/cpu/kv_layout.h"
#include "native/test/backends.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

struct Shape {
  std::int32_t heads, kv_heads, width;
  std::vector<std::int32_t> lengths;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {3, 3, 32, {1, 2, 15, 16, 17, 100}},
      {4, 2, 8, {33, 7}},
      {14, 2, 64, {49, 65}},
      {8, 1, 24, {40}},
      {2, 2, 128, {20, 96}},
      {10, 1, 12, {21}},
      {1, 1, 2, {18}},
  };
  return all;
}

// A packed batch of whole sequences with q, k and v side by side, as a model holds them.
struct Batch {
  Shape shape;
  std::int64_t rows = 0, stride = 0;
  Floats qkv;
  std::vector<std::vector<std::int32_t>> pages;
  std::vector<SequenceRows> sequences;
  Floats memory;
  KvPages cache{};
  std::unique_ptr<PassIndex> index;
  static constexpr std::int32_t kLayers = 2, kLayer = 1;

  Batch(const Shape& s, const Floats* given = nullptr) : shape(s) {
    stride = (s.heads + 2 * s.kv_heads) * s.width;
    for (const std::int32_t length : s.lengths) rows += length;
    qkv = given ? *given : normal(static_cast<std::size_t>(rows * stride), 11);
    cache = cpu::kv_pages(kLayers, s.kv_heads, s.width);
    std::int32_t next = 0;
    for (const std::int32_t length : s.lengths) next += (length + kPageTokens - 1) / kPageTokens;
    // Recycled pages hold anything: what was not written must never be read into a result.
    memory.assign(static_cast<std::size_t>(cache.page_floats * next),
                  std::numeric_limits<float>::quiet_NaN());
    cache.data = memory.data();
    std::int64_t row = 0;
    for (const std::int32_t length : s.lengths) {
      auto& own = pages.emplace_back();
      // Descending and so not contiguous.
      for (std::int32_t p = 0; p < length; p += kPageTokens) own.push_back(--next);
      sequences.push_back({row, length, 0, own.data()});
      row += length;
    }
  }
  Batch(const Batch&) = delete;

  ConstHeadsView queries() const { return {qkv.data(), rows, shape.heads, shape.width, stride}; }
  ConstHeadsView keys() const {
    return {qkv.data() + shape.heads * shape.width, rows, shape.kv_heads, shape.width, stride};
  }
  ConstHeadsView values() const {
    return {qkv.data() + (shape.heads + shape.kv_heads) * shape.width, rows, shape.kv_heads,
            shape.width, stride};
  }
  std::int64_t out_width() const { return std::int64_t{shape.heads} * shape.width; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.width)); }

  // Tokens and positions are nothing to attention.
  void assign(std::span<const SequenceRows> wanted) { index->assign({}, {}, wanted); }

  Floats run(Backend& backend, Floats* statistics = nullptr) {
    Floats out(static_cast<std::size_t>(rows * out_width()), 5.0f);
    index = backend.index(false);
    assign(sequences);
    backend.write_kv(keys(), values(), *index, cache, kLayer);
    if (statistics) statistics->assign(static_cast<std::size_t>(rows * shape.heads * 2), 5.0f);
    backend.attention(queries(), *index, cache, kLayer, scale(), out.data(),
                      statistics ? statistics->data() : nullptr);
    return out;
  }

  // [T, D] of one head of sequence b.
  reference::Values head(const ConstHeadsView& view, std::size_t b, std::int64_t h) const {
    reference::Values out;
    for (std::int32_t r = 0; r < sequences[b].rows; ++r) {
      const float* from =
          view.data + (sequences[b].first_row + r) * view.row_stride + h * view.width;
      out.insert(out.end(), from, from + view.width);
    }
    return out;
  }
};

// Views of `data` like those of the batch.
ConstHeadsView like(const ConstHeadsView& view, const Floats& batch, const Floats& data) {
  return {data.data() + (view.data - batch.data()), view.rows, view.heads, view.width,
          view.row_stride};
}
HeadsView mutable_like(const ConstHeadsView& view, const Floats& batch, Floats& data) {
  return {data.data() + (view.data - batch.data()), view.rows, view.heads, view.width,
          view.row_stride};
}

TEST(attention_matches_float64) {
  for_instruction_sets([](Backend& backend) {
    for (const Shape& shape : shapes()) {
      Batch batch(shape);
      Floats statistics;
      const Floats out = batch.run(backend, &statistics);
      const ConstHeadsView outs{out.data(), batch.rows, shape.heads, shape.width,
                                batch.out_width()};
      for (std::size_t b = 0; b < batch.sequences.size(); ++b) {
        for (std::int32_t h = 0; h < shape.heads; ++h) {
          const std::int32_t kv = h / (shape.heads / shape.kv_heads);
          const auto expected = reference::attention(
              batch.head(batch.queries(), b, h), batch.head(batch.keys(), b, kv),
              batch.head(batch.values(), b, kv), static_cast<std::size_t>(shape.lengths[b]),
              static_cast<std::size_t>(shape.width), batch.scale());
          const auto actual = batch.head(outs, b, h);
          const Floats narrow(actual.begin(), actual.end());
          CHECK(relative_error(narrow, expected.out) < 2e-6);
        }
      }
      for (std::size_t i = 0; i < statistics.size(); i += 2) {
        CHECK(std::isfinite(statistics[i]));
        CHECK(statistics[i + 1] >= 1);  // the largest key alone contributes e^0
      }
    }
  });
}

TEST(attention_backward_matches_float64) {
  for_instruction_sets([](Backend& backend) {
    for (const Shape& shape : shapes()) {
      Batch batch(shape);
      Floats statistics;
      const Floats out = batch.run(backend, &statistics);
      const Floats d_out = normal(out.size(), 12);
      Floats d_qkv(batch.qkv.size(), 5.0f);
      backend.attention_backward(batch.queries(), *batch.index, batch.cache, Batch::kLayer,
                                 batch.scale(), out.data(), statistics.data(), d_out.data(),
                                 mutable_like(batch.queries(), batch.qkv, d_qkv),
                                 mutable_like(batch.keys(), batch.qkv, d_qkv),
                                 mutable_like(batch.values(), batch.qkv, d_qkv));
      const ConstHeadsView d_outs{d_out.data(), batch.rows, shape.heads, shape.width,
                                  batch.out_width()};
      const std::int32_t group = shape.heads / shape.kv_heads;
      for (std::size_t b = 0; b < batch.sequences.size(); ++b) {
        const auto t = static_cast<std::size_t>(shape.lengths[b]),
                   d = static_cast<std::size_t>(shape.width);
        for (std::int32_t kv = 0; kv < shape.kv_heads; ++kv) {
          reference::Values d_k(t * d), d_v(t * d);
          const auto check = [&](const ConstHeadsView& view, std::int32_t h,
                                 const reference::Values& expected) {
            const auto actual = batch.head(like(view, batch.qkv, d_qkv), b, h);
            CHECK(relative_error(Floats(actual.begin(), actual.end()), expected) < 1e-5);
          };
          for (std::int32_t h = kv * group; h < (kv + 1) * group; ++h) {
            reference::Values d_q(t * d);
            reference::attention_gradient(
                batch.head(batch.queries(), b, h), batch.head(batch.keys(), b, kv),
                batch.head(batch.values(), b, kv), batch.head(d_outs, b, h), t, d, batch.scale(),
                d_q, d_k, d_v);
            // One token: its softmax is constant, so the exact gradient is zero and the float one a
            // rounding.
            if (t > 1) check(batch.queries(), h, d_q);
          }
          if (t > 1) check(batch.keys(), kv, d_k);
          check(batch.values(), kv, d_v);
        }
      }
    }
  });
}

TEST(attention_does_not_depend_on_batch_threads_or_cache) {
  for_instruction_sets([](Backend& backend) {
    for (const Shape& shape : shapes()) {
      Batch batch(shape);
      Floats statistics;
      const Floats together = batch.run(backend, &statistics);
      {
        const Threads two(2);
        Floats again;
        CHECK(same_bits(batch.run(backend, &again), together));
        CHECK(same_bits(again, statistics));
      }
      for (std::size_t b = 0; b < batch.sequences.size(); ++b) {
        const SequenceRows& whole = batch.sequences[b];
        const auto begin = static_cast<std::size_t>(whole.first_row);
        Shape alone = shape;
        alone.lengths = {whole.rows};
        const auto at = batch.qkv.begin() +
                        static_cast<std::ptrdiff_t>(begin * static_cast<std::size_t>(batch.stride));
        const Floats own(at, at + whole.rows * batch.stride);
        const float* expected = &together[begin * static_cast<std::size_t>(batch.out_width())];
        Batch single(alone, &own);
        const Floats out = single.run(backend);
        CHECK(same_bits(out.data(), expected, out.size()));

        // The same tokens in pieces: one by one like decoding, and in uneven chunks like prefill.
        for (const std::int32_t piece : {1, 5, 19}) {
          Batch cached(alone, &own);
          Floats stepwise(out.size());
          for (std::int32_t past = 0; past < whole.rows; past += piece) {
            const SequenceRows rows{past, std::min(piece, whole.rows - past), past,
                                    cached.pages[0].data()};
            cached.index = backend.index(false);
            cached.assign(std::span(&rows, 1));
            backend.write_kv(cached.keys(), cached.values(), *cached.index, cached.cache,
                             Batch::kLayer);
            backend.attention(cached.queries(), *cached.index, cached.cache, Batch::kLayer,
                              cached.scale(), stepwise.data(), nullptr);
          }
          CHECK(same_bits(stepwise.data(), expected, stepwise.size()));
        }
      }
    }
  });
}

TEST(attention_without_a_backward_is_rounded_as_products_round) {
  for_backends([](Backend& backend) {
    for (const int threads : {1, 2}) {
      const Threads scope(threads);
      Batch batch({6, 2, 24, {150, 1, 90, 7}});
      Floats statistics;
      const Floats floats = batch.run(backend, &statistics);
      Floats out(floats.size());
      const Operand written = backend.attention(batch.queries(), *batch.index, batch.cache,
                                                Batch::kLayer, batch.scale(), out.data(), nullptr);
      CHECK_EQ(written.rounded, backend.compute() == ComputeType::bf16);
      constexpr std::int64_t kOutputs = 20;
      const Floats weight = normal(static_cast<std::size_t>(kOutputs * batch.out_width()), 9);
      const auto packed = backend.pack(weight.data(), kOutputs, batch.out_width());
      const auto product = [&](const Operand& x) {
        Floats y(static_cast<std::size_t>(batch.rows * kOutputs));
        backend.linear(x, batch.rows, *packed, {}, y.data(), nullptr);
        return y;
      };
      CHECK(same_bits(product(written), product(as_operand(floats.data(), batch.out_width()))));
    }
  });
}

TEST(attention_backward_does_not_depend_on_threads) {
  for_instruction_sets([](Backend& backend) {
    Floats first;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      Batch batch({6, 2, 32, {150, 40, 90, 7}});
      Floats statistics;
      const Floats out = batch.run(backend, &statistics);
      const Floats d_out = normal(out.size(), 12);
      Floats d_qkv(batch.qkv.size());
      backend.attention_backward(batch.queries(), *batch.index, batch.cache, Batch::kLayer,
                                 batch.scale(), out.data(), statistics.data(), d_out.data(),
                                 mutable_like(batch.queries(), batch.qkv, d_qkv),
                                 mutable_like(batch.keys(), batch.qkv, d_qkv),
                                 mutable_like(batch.values(), batch.qkv, d_qkv));
      if (threads == 1) first = d_qkv;
      CHECK(same_bits(d_qkv, first));
    }
  });
}

TEST(a_later_nan_does_not_reach_earlier_rows) {
  for_instruction_sets([](Backend& backend) {
    const Shape shape{2, 1, 16, {40}};
    Batch clean(shape);
    const Floats expected = clean.run(backend);
    Floats poisoned = clean.qkv;
    constexpr std::size_t kRow = 21;
    const auto stride = static_cast<std::size_t>(clean.stride),
               width = static_cast<std::size_t>(clean.out_width());
    for (std::size_t i = 0; i < stride; ++i)
      poisoned[kRow * stride + i] = std::numeric_limits<float>::quiet_NaN();
    Batch batch(shape, &poisoned);
    const Floats out = batch.run(backend);
    CHECK(same_bits(out.data(), expected.data(), kRow * width));
    for (std::size_t i = kRow * width; i < out.size(); ++i) CHECK(std::isnan(out[i]));
  });
}

}  // namespace
}  // namespace hindsearch::testing
