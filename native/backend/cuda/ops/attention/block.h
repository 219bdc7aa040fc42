// Which queries a block of the tiled forward attention takes.
#pragma once

#include "native/backend/cuda/ops/attention/tiles.h"
#include "native/backend/cuda/runtime/context.h"

namespace hindsearch::cuda {

struct AttentionArguments {
  ConstHeadsView queries;
  Pass pass;
  std::int32_t layer;
  std::int32_t group;  // H / K
  float scale;         // above 0
  float* out;
  float* statistics;  // or null
};

// Some query vectors that share a key/value head: the rows of a tile with all heads of the group,
// numbered row by row, so that what a block masks is a few rows and not a whole tile. Blocks of the
// longest tiles come first.
struct QueryBlock {
  PassSequence sequence;
  std::int32_t kv_head;
  std::int32_t group;
  std::int32_t first_row;  // of the tile, in the sequence
  std::int32_t first;      // vector of the tile
  std::int32_t count;      // vectors; 0 or less: nothing to do

  // Vector i of the block.
  __device__ std::int32_t row(std::int32_t i) const { return first_row + (first + i) / group; }
  __device__ std::int32_t head(std::int32_t i) const {
    return kv_head * group + (first + i) % group;
  }
  // Keys that it sees.
  __device__ std::int32_t seen(std::int32_t i) const { return sequence.past + row(i) + 1; }
  // Of the packed tensors [R, H].
  __device__ std::int64_t place(std::int32_t i, std::int64_t heads) const {
    return (std::int64_t{sequence.first_row} + row(i)) * heads + head(i);
  }
  __device__ const float* query(std::int32_t i, const ConstHeadsView& queries) const {
    return queries.data + (std::int64_t{sequence.first_row} + row(i)) * queries.row_stride +
           head(i) * queries.width;
  }
};

inline std::int64_t blocks_of_tile(std::int64_t group, int vectors) {
  return ceil_div(kQueryTile * group, vectors);
}

__device__ inline QueryBlock query_block(const AttentionArguments& arguments, std::int32_t kv_heads,
                                         std::int32_t vectors) {
  const Pass& pass = arguments.pass;
  const std::int32_t group = arguments.group;
  const std::int32_t parts = (kQueryTile * group + vectors - 1) / vectors;
  const std::int32_t index = static_cast<std::int32_t>(blockIdx.x);
  const QueryTile tile = pass.tiles[index / (parts * kv_heads)];
  QueryBlock block;
  block.sequence = pass.sequences[tile.sequence];
  block.kv_head = index / parts % kv_heads;
  block.group = group;
  block.first_row = tile.first;
  block.first = index % parts * vectors;
  const std::int32_t rows = block.sequence.rows - tile.first;
  const std::int32_t all = (rows < kQueryTile ? rows : kQueryTile) * group - block.first;
  block.count = all < vectors ? all : vectors;
  return block;
}

// forward_plain.cu: the tiles of a pass in f32.
void attention_plain(const Context& context, const AttentionArguments& arguments,
                     const Pages<float>& pages);

}  // namespace hindsearch::cuda
