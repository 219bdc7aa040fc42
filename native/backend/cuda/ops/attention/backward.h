// What the kernels of attention's gradient share. With p = softmax(scale q k) and o = p v:
//   dv_j = sum_i p_ij do_i;  ds_ij = p_ij (do_i . v_j - do_i . o_i);
//   dq_i = scale sum_j ds_ij k_j;  dk_j = scale sum_i ds_ij q_i.
// Probabilities are computed again from the forward's statistics (FlashAttention-2, Dao 2023,
// algorithm 2), twice: a block that holds keys passes over the queries that see them, a block that
// holds queries over the keys they see. So every sum stays in one block's registers, in a fixed
// order, where algorithm 2 adds up dq with atomics.
#pragma once

#include "native/backend/cuda/ops/attention/tiles.h"
#include "native/backend/cuda/pass.h"
#include "native/backend/cuda/runtime/context.h"

namespace hindsearch::cuda {

// Head h of row r is at data + r * row_stride + h * head_stride.
template <class T>
struct HeadRows {
  const T* data;
  std::int64_t row_stride;
  std::int64_t head_stride;
};

template <class T>
struct AttentionGradient {
  Pass pass;
  Pages<T> pages;
  std::int32_t layer;
  float scale;
  std::int32_t heads;
  std::int32_t group;  // query heads of a key/value head
  HeadRows<T> queries, d_out;
  std::int32_t row_width;   // of these rows: the head's width, or more with zeros in the rest
  bool vectors;             // they can be read in vectors
  const float* statistics;  // [R, H, 2]
  const float2* terms;      // [R, H]: logarithm of the sum of exponentials, and do . o
  HeadsView d_queries, d_keys, d_values;
};

// By tensor cores, and in f32.
void attention_gradient(const Context& context, const AttentionGradient<bf16>& gradient);
void attention_gradient(const Context& context, const AttentionGradient<float>& gradient);

// What a block holds: kQueryTile or fewer rows of a sequence.
struct HeldRows {
  PassSequence sequence;
  std::int32_t first;  // row of the sequence; behind its rows: nothing to do
};
// The pass's tiles, and then its sequences of one row.
inline std::int32_t held_tiles(const Pass& pass) { return pass.tile_count + pass.decode_count; }
__device__ inline HeldRows held_queries(const Pass& pass, std::int32_t tile_number) {
  if (tile_number < pass.tile_count) {
    const QueryTile tile = pass.tiles[tile_number];
    return {pass.sequences[tile.sequence], tile.first};
  }
  const std::int32_t sequence = pass.decode_sequences[tile_number - pass.tile_count];
  if (sequence < 0) return {};
  return {pass.sequences[sequence], 0};
}
// The tile of queries with the most keys stands first in the pass; so does, counted from the other
// end of its sequence, the tile of keys with the most queries.
__device__ inline HeldRows held_keys(const Pass& pass, std::int32_t tile_number) {
  HeldRows held = held_queries(pass, tile_number);
  held.first = (held.sequence.rows - 1) / kQueryTile * kQueryTile - held.first;
  return held;
}

// Rows first .. of a sequence, of one head, for load_tile; behind the sequence are zeros.
template <class T>
__device__ auto head_rows(const HeadRows<T>& rows, const PassSequence& sequence, std::int32_t first,
                          std::int32_t head) {
  const T* from = rows.data + (std::int64_t{sequence.first_row} + first) * rows.row_stride +
                  head * rows.head_stride;
  return [from, stride = rows.row_stride, count = sequence.rows - first](int i) -> const T* {
    return i < count ? from + i * stride : nullptr;
  };
}
// The same of keys or values first .. end - 1.
template <class T>
__device__ auto page_rows(const PagedRows<T>& rows, std::int32_t first, std::int32_t end) {
  return [&rows, first, end](int i) -> const T* {
    return first + i < end ? rows.row(first + i) : nullptr;
  };
}

}  // namespace hindsearch::cuda
