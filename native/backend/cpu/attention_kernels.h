// Attention of a few query rows over pages. For each row: scores are chains over D in ascending
// order; the maximum is over all keys; the sum runs over pages in order, lane by lane, then over
// lanes by the fixed tree; values are chains over keys in ascending order. How many rows share a
// call only decides which registers are reused.
#pragma once

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/row_kernels.h"
#include "native/backend/cpu/simd.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

#if defined(__AVX512F__)
inline constexpr int kAttentionRows = 8;
#else
inline constexpr int kAttentionRows = 4;
#endif

// Dot products of kRows queries ([D][kRows]) with the keys of kPages pages.
template <int kRows, int kPages>
inline void score_pages(const float* queries, const float* const* pages, std::int64_t width,
                        float* scores, std::int64_t stride) {
  F16 sums[kRows][kPages];
  HINDSEARCH_UNROLL
  for (int i = 0; i < kRows; ++i) {
    HINDSEARCH_UNROLL
    for (int p = 0; p < kPages; ++p) sums[i][p] = splat16(0);
  }
  for (std::int64_t d = 0; d < width; ++d, queries += kRows) {
    F16 keys[kPages];
    HINDSEARCH_UNROLL
    for (int p = 0; p < kPages; ++p) keys[p] = load16(pages[p] + d * kPageTokens);
    HINDSEARCH_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const F16 q = splat16(queries[i]);
      HINDSEARCH_UNROLL
      for (int p = 0; p < kPages; ++p) sums[i][p] = fma(q, keys[p], sums[i][p]);
    }
  }
  HINDSEARCH_UNROLL
  for (int i = 0; i < kRows; ++i) {
    HINDSEARCH_UNROLL
    for (int p = 0; p < kPages; ++p) store16(scores + i * stride + p * kPageTokens, sums[i][p]);
  }
}

// Turns one row's dot products into exponentials; returns (maximum, sum). Lanes of keys that do not
// exist yet hold anything, so they are replaced, not multiplied away.
struct Softmax {
  float largest, sum;
};
inline Softmax exponentiate(float* scores, std::int32_t length, float scale) {
  const F16 scale16 = splat16(scale), lowest = splat16(-__builtin_inff());
  const std::int64_t full = length / kLanes * kLanes;
  F16 most = lowest;
  for (std::int64_t j = 0; j < full; j += kLanes) {
    const F16 z = load16(scores + j) * scale16;
    store16(scores + j, z);
    most = larger(z, most);
  }
  if (full < length) {
    const F16 z = first_lanes(length - full, load16(scores + full) * scale16, lowest);
    store16(scores + full, z);
    most = larger(z, most);
  }
  const float top = largest(most);
  const F16 top16 = splat16(top);
  F16 total = splat16(0);
  for (std::int64_t j = 0; j < length; j += kLanes) {
    const F16 e = exp(load16(scores + j) - top16);
    store16(scores + j, e);
    total = total + e;
  }
  return {top, sum(total)};
}

// Columns [0, kVectors * kWidth), or fewer when kPart, of the weighted sum of values.
template <int kRows, int kVectors, bool kPart>
inline void weigh_values(const AttentionRows& rows, const float* weights, std::int64_t stride,
                         const float* inverse_sums, std::int64_t column, std::int64_t part) {
  V sums[kRows][kVectors];
  HINDSEARCH_UNROLL
  for (int i = 0; i < kRows; ++i) {
    HINDSEARCH_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[i][v] = V{};
  }
  const auto value_at = [&](std::int64_t j, int v) {
    const float* p =
        rows.values[j / kPageTokens] + j % kPageTokens * rows.width + column + v * kWidth;
    if constexpr (kPart) {
      return load_part(p, part);
    } else {
      return load(p);
    }
  };
  const std::int64_t common = rows.lengths[0], longest = rows.lengths[kRows - 1];
  for (std::int64_t j = 0; j < common; ++j) {
    V value[kVectors];
    HINDSEARCH_UNROLL
    for (int v = 0; v < kVectors; ++v) value[v] = value_at(j, v);
    HINDSEARCH_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const V weight = splat(weights[i * stride + j]);
      HINDSEARCH_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(weight, value[v], sums[i][v]);
    }
  }
  for (std::int64_t j = common; j < longest; ++j) {
    V value[kVectors];
    HINDSEARCH_UNROLL
    for (int v = 0; v < kVectors; ++v) value[v] = value_at(j, v);
    HINDSEARCH_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const I seen = I{} + rows.lengths[i] > I{} + static_cast<std::int32_t>(j);
      const V weight = splat(weights[i * stride + j]);
      HINDSEARCH_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = seen ? fma(weight, value[v], sums[i][v]) : sums[i][v];
      }
    }
  }
  HINDSEARCH_UNROLL
  for (int i = 0; i < kRows; ++i) {
    const V scale = splat(inverse_sums[i]);
    HINDSEARCH_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* out = rows.out[i] + column + v * kWidth;
      if constexpr (kPart) {
        store_part(out, part, sums[i][v] * scale);
      } else {
        store(out, sums[i][v] * scale);
      }
    }
  }
}

template <int kRows>
inline void attend(const AttentionRows& rows) {
  // Few rows take more pages and columns at once: enough chains to hide the latency of an addition.
  constexpr int kPages = kRows * kParts <= 4 ? 4 : kRows * kParts <= 8 ? 2 : 1;
  constexpr int kVectors = kRows <= 4 ? 4 : 2;
  const std::int64_t width = rows.width;
  const std::int64_t longest = rows.lengths[kRows - 1];
  const std::int64_t pages = (longest + kPageTokens - 1) / kPageTokens;
  // One page apart from a power of two, or rows would share the sets of the first-level cache.
  const std::int64_t stride = (pages + 1) * kPageTokens;
  float* queries = rows.scratch;
  float* scores = queries + kRows * width;
  for (std::int64_t d = 0; d < width; ++d) {
    for (int i = 0; i < kRows; ++i) queries[d * kRows + i] = rows.queries[i][d];
  }
  std::int64_t page = 0;
  for (; page + kPages <= pages; page += kPages) {
    score_pages<kRows, kPages>(queries, rows.keys + page, width, scores + page * kPageTokens,
                               stride);
  }
  for (; page < pages; ++page) {
    score_pages<kRows, 1>(queries, rows.keys + page, width, scores + page * kPageTokens, stride);
  }
  float inverse_sums[kRows];
  for (int i = 0; i < kRows; ++i) {
    const Softmax softmax = exponentiate(scores + i * stride, rows.lengths[i], rows.scale);
    rows.statistics[i][0] = softmax.largest;
    rows.statistics[i][1] = softmax.sum;
    inverse_sums[i] = 1.0f / softmax.sum;
  }
  std::int64_t column = 0;
  for (; column + kVectors * kWidth <= width; column += kVectors * kWidth) {
    weigh_values<kRows, kVectors, false>(rows, scores, stride, inverse_sums, column, 0);
  }
  for (; column + kWidth <= width; column += kWidth) {
    weigh_values<kRows, 1, false>(rows, scores, stride, inverse_sums, column, 0);
  }
  if (column < width)
    weigh_values<kRows, 1, true>(rows, scores, stride, inverse_sums, column, width - column);
}

template <int kRows = kAttentionRows>
inline void attention(const AttentionRows& rows) {
  if (rows.count == kRows) {
    attend<kRows>(rows);
  } else if constexpr (kRows > 1) {
    attention<kRows - 1>(rows);
  }
}

inline void attention_gradient(const AttentionGradientTile& tile) {
  const F16 zero = splat16(0), scale = splat16(tile.scale);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const F16 largest = splat16(tile.statistics[i * tile.statistics_stride]);
    const F16 inverse = splat16(1.0f / tile.statistics[i * tile.statistics_stride + 1]);
    const F16 delta = splat16(tile.deltas[i]);
    const std::int64_t seen = tile.seen + i;
    for (std::int64_t j = 0; j < tile.columns; j += kLanes) {
      float* score = tile.scores + i * tile.stride + j;
      float* d_score = tile.d_scores + i * tile.stride + j;
      const F16 p = exp(load16(score) * scale - largest) * inverse;
      const F16 ds = p * (load16(d_score) - delta);
      const std::int64_t lanes = seen - j < 0 ? 0 : seen - j > kLanes ? kLanes : seen - j;
      store16(score, first_lanes(lanes, p, zero));
      store16(d_score, first_lanes(lanes, ds, zero));
    }
  }
}

inline float dot(const float* x, const float* y, std::int64_t n) {
  F16 total = splat16(0);
  for_blocks(n, [&](auto at) { total = fma(at(x), at(y), total); });
  return sum(total);
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
