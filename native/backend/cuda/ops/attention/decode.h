// What the two kernels of decode attention share: which block does what, and how its warps' results
// become one.
#pragma once

#include <cmath>

#include "native/backend/cuda/ops/attention/block.h"

namespace hindsearch::cuda {

inline constexpr int kDecodeWarps = 4;
inline constexpr int kDecodeHeads = 16;  // of a block, at most

// Results of the chunks of sequences that have several: values [place, chunk, H, D], and (maximum,
// sum of exponentials) [place, chunk, H, 2]. `place` counts the pass's decode list.
struct DecodePartials {
  float* values;
  float* statistics;
  std::int32_t chunks;

  __device__ std::int64_t at(std::int64_t place, std::int32_t chunk, std::int64_t heads,
                             std::int64_t head) const {
    return (place * chunks + chunk) * heads + head;
  }
};

// Query heads of one group in one sequence against one chunk of its keys.
struct DecodeBlock {
  PassSequence sequence;
  std::int32_t place, chunk, kv_head;
  std::int32_t first_head, heads;
  std::int32_t first, end;  // keys; nothing to do where first >= end

  __device__ std::int32_t length() const { return sequence.past + 1; }
};

inline dim3 decode_grid(const AttentionArguments& arguments, std::int32_t kv_heads) {
  return dim3(static_cast<unsigned>(arguments.pass.decode_count),
              static_cast<unsigned>(kv_heads * ceil_div(arguments.group, kDecodeHeads)),
              static_cast<unsigned>(arguments.pass.decode_chunks));
}

__device__ inline DecodeBlock decode_block(const AttentionArguments& arguments) {
  const Pass& pass = arguments.pass;
  DecodeBlock block{};
  block.place = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t index = pass.decode_sequences[block.place];
  if (index < 0) return block;
  block.sequence = pass.sequences[index];
  if (block.sequence.rows == 0) return block;
  const std::int32_t parts = (arguments.group + kDecodeHeads - 1) / kDecodeHeads;
  const std::int32_t part = static_cast<std::int32_t>(blockIdx.y) % parts;
  block.kv_head = static_cast<std::int32_t>(blockIdx.y) / parts;
  const std::int32_t left = arguments.group - part * kDecodeHeads;
  block.first_head = block.kv_head * arguments.group + part * kDecodeHeads;
  block.heads = left < kDecodeHeads ? left : kDecodeHeads;
  block.chunk = static_cast<std::int32_t>(blockIdx.z);
  block.first = block.chunk * kDecodeChunk;
  const std::int32_t length = block.length();
  block.end = length - block.first < kDecodeChunk ? length : block.first + kDecodeChunk;
  return block;
}

// Each warp's weighted sums of values [heads, kHead], maxima and sums of exponentials.
struct DecodeResults {
  float* values;
  float* largest;  // [kDecodeWarps][kDecodeHeads]
  float* sums;
};
template <int kHead>
__device__ DecodeResults decode_results(float* shared, std::int32_t heads) {
  float* const largest = shared + kDecodeWarps * heads * kHead;
  return {shared, largest, largest + kDecodeWarps * kDecodeHeads};
}
template <int kHead>
constexpr std::size_t decode_result_bytes(std::int64_t heads) {
  return static_cast<std::size_t>(kDecodeWarps * (heads * kHead + 2 * kDecodeHeads)) *
         sizeof(float);
}

// The warps' results, in order, as the sequence's own or as that of a chunk.
template <int kHead>
__device__ void finish_decode(const AttentionArguments& arguments, const DecodeBlock& block,
                              const DecodeResults& results, const DecodePartials& partials) {
  const std::int32_t width = static_cast<std::int32_t>(arguments.queries.width);
  const std::int64_t all_heads = arguments.queries.heads;
  const bool whole = block.length() <= kDecodeChunk;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < block.heads * width;
       i += kDecodeWarps * kWarp) {
    const std::int32_t own = i / width, d = i % width, head = block.first_head + own;
    float largest = -INFINITY;
    for (int w = 0; w < kDecodeWarps; ++w) {
      largest = fmaxf(largest, results.largest[w * kDecodeHeads + own]);
    }
    float sum = 0, value = 0;
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float factor = expf(results.largest[w * kDecodeHeads + own] - largest);
      sum = fmaf(factor, results.sums[w * kDecodeHeads + own], sum);
      value = fmaf(factor, results.values[(w * block.heads + own) * kHead + d], value);
    }
    float* statistics;
    if (whole) {
      const std::int64_t at = std::int64_t{block.sequence.first_row} * all_heads + head;
      arguments.out[at * width + d] = value / sum;
      statistics = arguments.statistics ? arguments.statistics + 2 * at : nullptr;
    } else {
      const std::int64_t at = partials.at(block.place, block.chunk, all_heads, head);
      partials.values[at * width + d] = value;
      statistics = partials.statistics + 2 * at;
    }
    if (statistics && d == 0) {
      statistics[0] = largest;
      statistics[1] = sum;
    }
  }
}

// decode_plain.cu: the chunks in f32.
void decode_plain(const Context& context, const AttentionArguments& arguments,
                  const Pages<float>& pages, const DecodePartials& partials);

}  // namespace hindsearch::cuda
