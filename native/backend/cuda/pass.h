// The rows of a pass, as kernels see them. All pointers are on the device.
#pragma once

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

struct PassSequence {
  std::int32_t first_row;
  std::int32_t rows;  // new tokens; 0: a place that pads a recorded pass, nothing to do
  std::int32_t past;
  std::int32_t first_page;  // its page numbers are pages[first_page ...]
};

// kQueryTile or fewer rows in a row of a sequence that has several.
struct QueryTile {
  std::int32_t sequence;
  std::int32_t first;  // row of the sequence: its query sees keys 0 .. past + row
};
inline constexpr int kQueryTile = 64;

// Keys that one block of decode attention reads: fixed, so that the order of a row's additions depends
// on nothing but its length.
inline constexpr int kDecodeChunk = 256;

// Rows of the embedding's gradient: the pass's tokens sorted by id, rows of one id in ascending order.
struct TokenRuns {
  std::int32_t count = 0;               // different ids
  const Token* tokens = nullptr;        // [count]
  const std::int32_t* begin = nullptr;  // [count + 1] into rows
  const std::int32_t* rows = nullptr;
};

struct Pass {
  std::int32_t rows;  // padding included
  std::int32_t sequence_count;
  const Token* tokens;            // [rows]; padding: 0
  const std::int32_t* positions;  // [rows]; padding: 0
  const std::int32_t* row_sequence;  // [rows], -1: padding
  const PassSequence* sequences;  // [sequence_count]
  const std::int32_t* pages;

  // Sequences with one new row, and with several.
  std::int32_t decode_count;             // padding included
  const std::int32_t* decode_sequences;  // [decode_count]; -1: padding
  std::int32_t decode_chunks;            // of the longest of them, rounded up for recorded passes
  std::int32_t tile_count;
  const QueryTile* tiles;  // the longest first

  std::int32_t longest_new;  // most new rows of a sequence
};

// Pages of keys and values: per page, layer and head keys [kPageTokens][D], then values
// [kPageTokens][D], of float or bf16 as the backend computes.
template <class T>
struct Pages {
  T* data;
  std::int32_t layers;
  std::int32_t heads;
  std::int32_t head_dim;

  __host__ __device__ std::int64_t page_elements() const {
    return std::int64_t{2} * layers * heads * head_dim * kPageTokens;
  }
  __host__ __device__ T* keys(std::int32_t page, std::int32_t layer, std::int32_t head) const {
    return data + page * page_elements() +
           (std::int64_t{layer} * heads + head) * 2 * head_dim * kPageTokens;
  }
  __host__ __device__ T* values(std::int32_t page, std::int32_t layer, std::int32_t head) const {
    return keys(page, layer, head) + std::int64_t{head_dim} * kPageTokens;
  }
};

}  // namespace hindsearch::cuda
