// Attention of one new row a sequence over pages. It reads every key and value of the cache once,
// for all query heads that share them, so memory is its limit: operands come from pages straight
// into registers, and what bounds the launch is the pass's shape alone.
//
// A block takes one chunk of a sequence, a warp every fourth page of it with an online softmax of
// its own. Chunks are cut by key numbers and all results join in order: a row depends on nothing
// but its sequence.
#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/attention/decode.h"
#include "native/backend/cuda/ops/attention/softmax.h"

namespace hindsearch::cuda {
namespace {

// Elements column .. column + 3 or + 7 of a row as they lie; zeros after `width` and where there is
// no row.
__device__ std::uint32_t row_pair(const bf16* row, std::int32_t column, std::int32_t width) {
  std::uint32_t pair = 0;
  // Unrolled, the loads of many pairs at once take more registers than there are.
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    if (row && column + i < width) pair |= std::uint32_t{row[column + i].bits} << 16 * i;
  }
  return pair;
}
template <bool kVectors>
__device__ uint2 row_quad(const bf16* row, std::int32_t column, std::int32_t width) {
  if constexpr (kVectors) {
    if (!row || column >= width) return make_uint2(0, 0);
    return __ldg(reinterpret_cast<const uint2*>(row + column));
  } else {
    return {row_pair(row, column, width), row_pair(row, column + 2, width)};
  }
}
template <bool kVectors>
__device__ uint4 row_octet(const bf16* row, std::int32_t column, std::int32_t width) {
  if constexpr (kVectors) {
    if (!row || column >= width) return make_uint4(0, 0, 0, 0);
    return __ldg(reinterpret_cast<const uint4*>(row + column));
  } else {
    return {row_pair(row, column, width), row_pair(row, column + 2, width),
            row_pair(row, column + 4, width), row_pair(row, column + 6, width)};
  }
}

// Lane (g, t) has of each 32 columns of key g the columns 8t .. 8t+7, and of each 32 columns of
// values 2t, 2t+1, 2t+8 and 2t+9 the columns 4g .. 4g+3. kVectors: D is a multiple of 8.
template <int kHead, bool kVectors>
__global__ void __launch_bounds__(kDecodeWarps* kWarp, kVectors&& kHead < 128 ? 3 : 2)
    decode_kernel(AttentionArguments arguments, Pages<bf16> pages, DecodePartials partials) {
  constexpr int kStride = kTileStride<bf16, kHead>, kColumns = kHead / 8, kParts = kHead / 32;
  // Of 32 columns each that are read at once; more would not fit into registers.
  constexpr int kAtOnce = !kVectors ? 1 : kParts <= 4 ? kParts : 2;
  const DecodeBlock block = decode_block(arguments);
  if (block.first >= block.end) return;
  const ConstHeadsView& queries = arguments.queries;
  const std::int32_t width = pages.head_dim;
  bf16* const query_tile = dynamic_shared<bf16>();
  const float* query = queries.data + block.sequence.first_row * queries.row_stride +
                       block.first_head * queries.width;
  load_tile<kHead, kDecodeHeads>(
      [&](int i) -> const float* { return i < block.heads ? query + i * width : nullptr; }, width,
      vector_rows<bf16>(queries.data, queries.row_stride, width), query_tile);
  const DecodeResults results = decode_results<kHead>(
      reinterpret_cast<float*>(query_tile + kDecodeHeads * kStride), block.heads);
  __syncthreads();

  const Lane lane = lane_place();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int32_t* const table = arguments.pass.pages + block.sequence.first_page;
  Softmax<1> softmax;
  softmax.clear();
  float sums[1][kColumns][4] = {};
  for (std::int32_t first = block.first + warp * kPageTokens; first < block.end;
       first += kDecodeWarps * kPageTokens) {
    const std::int32_t page = table[first / kPageTokens], count = block.end - first;
    const bf16* const keys = pages.keys(page, arguments.layer, block.kv_head);
    const bf16* const values = pages.values(page, arguments.layer, block.kv_head);
    // A row that was not written is not read.
    const auto row = [&](const bf16* rows, int i) {
      return i < count ? rows + i * width : nullptr;
    };
    const auto load_keys = [&](int from, uint4(&key)[kAtOnce][2]) {
#pragma unroll
      for (int part = 0; part < kAtOnce; ++part) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          key[part][n] = row_octet<kVectors>(row(keys, 8 * n + lane.g),
                                             32 * (from + part) + 8 * lane.t, width);
        }
      }
    };
    const auto load_values = [&](int from, uint2(&value)[kAtOnce][4]) {
#pragma unroll
      for (int part = 0; part < kAtOnce; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          value[part][i] = row_quad<kVectors>(row(values, 4 * (i & 2) + 2 * lane.t + (i & 1)),
                                              32 * (from + part) + 4 * lane.g, width);
        }
      }
    };
    uint4 key[kAtOnce][2];
    uint2 value[kAtOnce][4];
    // Read number by number, both would not fit into registers.
    if constexpr (kVectors) {
      load_keys(0, key);
      load_values(0, value);
    }

    float scores[1][2][4] = {};
#pragma unroll 1
    for (int from = 0; from < kParts; from += kAtOnce) {
      if (!kVectors || from > 0) load_keys(from, key);
#pragma unroll
      for (int part = 0; part < kAtOnce; ++part) {
        const bf16* at = query_tile + lane.g * kStride + 32 * (from + part) + 8 * lane.t;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint2 upper = shared_pair(at + 4 * half);
          const uint2 lower = shared_pair(at + 8 * kStride + 4 * half);
          const std::uint32_t a[4] = {upper.x, lower.x, upper.y, lower.y};
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const uint4& k = key[part][n];
            const std::uint32_t b[2] = {half ? k.z : k.x, half ? k.w : k.y};
            mma_16x8x16(scores[0][n], a, b);
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (8 * n + 2 * lane.t + (e & 1) >= count) scores[0][n][e] = -INFINITY;
      }
    }
    exponentiate(scores, arguments.scale * kLog2e, softmax, sums);
    std::uint32_t a[4];
    left_operand(scores[0][0], scores[0][1], a);
#pragma unroll
    for (int from = 0; from < kParts; from += kAtOnce) {
      // Nor would all values, which the compiler would read early.
      if constexpr (!kVectors) __syncwarp();
      if (!kVectors || from > 0) load_values(from, value);
#pragma unroll
      for (int part = 0; part < kAtOnce; ++part) {
        std::uint32_t b[4][2];
        pair_rows(value[part][0], value[part][1], 0, b);
        pair_rows(value[part][2], value[part][3], 1, b);
#pragma unroll
        for (int q = 0; q < 4; ++q) mma_16x8x16(sums[0][4 * (from + part) + q], a, b[q]);
      }
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = softmax.total(0, half);
    const int head = lane.g + 8 * half;
    if (head >= block.heads) continue;
    store_columns<kHead>(sums[0], half, 1, lane, kHead, true,
                         results.values + (warp * block.heads + head) * kHead);
    if (lane.t == 0) {
      results.largest[warp * kDecodeHeads + head] = softmax.largest[0][half] * arguments.scale;
      results.sums[warp * kDecodeHeads + head] = sum;
    }
  }
  __syncthreads();
  finish_decode<kHead>(arguments, block, results, partials);
}

// The chunks of one row and head, in order.
__global__ void __launch_bounds__(128)
    combine_kernel(AttentionArguments arguments, DecodePartials partials) {
  const Pass& pass = arguments.pass;
  const std::int32_t place = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t index = pass.decode_sequences[place];
  if (index < 0) return;
  const PassSequence sequence = pass.sequences[index];
  const std::int32_t chunks = (sequence.past + kDecodeChunk) / kDecodeChunk;
  if (sequence.rows == 0 || chunks == 1) return;
  const std::int64_t heads = arguments.queries.heads, width = arguments.queries.width;
  const std::int64_t head = blockIdx.y;
  const auto statistics = [&](std::int32_t chunk) {
    return partials.statistics + 2 * partials.at(place, chunk, heads, head);
  };
  float largest = -INFINITY, sum = 0;
  for (std::int32_t c = 0; c < chunks; ++c) largest = fmaxf(largest, statistics(c)[0]);
  for (std::int32_t c = 0; c < chunks; ++c) {
    sum = fmaf(expf(statistics(c)[0] - largest), statistics(c)[1], sum);
  }
  const std::int64_t row = sequence.first_row * heads + head;
  for (std::int64_t d = threadIdx.x; d < width; d += blockDim.x) {
    float value = 0;
    for (std::int32_t c = 0; c < chunks; ++c) {
      value = fmaf(expf(statistics(c)[0] - largest),
                   partials.values[partials.at(place, c, heads, head) * width + d], value);
    }
    arguments.out[row * width + d] = value / sum;
  }
  if (arguments.statistics && threadIdx.x == 0) {
    arguments.statistics[2 * row] = largest;
    arguments.statistics[2 * row + 1] = sum;
  }
}

}  // namespace

void attention_decode(const Context& context, const ConstHeadsView& queries, const Pass& pass,
                      const KvPages& pages, std::int32_t layer, float scale, float* out,
                      float* statistics) {
  if (pass.decode_count == 0) return;
  const std::int32_t group = static_cast<std::int32_t>(queries.heads) / pages.heads;
  const AttentionArguments arguments{queries, pass, layer, group, scale, out, statistics};
  DecodePartials partials{nullptr, nullptr, pass.decode_chunks};
  if (pass.decode_chunks > 1) {
    const std::int64_t count = std::int64_t{pass.decode_count} * pass.decode_chunks * queries.heads;
    partials.values = context.workspace.take<float>(Slot::partials, count * (queries.width + 2));
    partials.statistics = partials.values + count * queries.width;
  }
  if (context.compute == ComputeType::f32) {
    decode_plain(context, arguments, typed_pages<float>(pages), partials);
  } else {
    for_head_class(queries.width, [&](auto head) {
      const std::int64_t heads = group < kDecodeHeads ? group : kDecodeHeads;
      const std::size_t shared =
          kDecodeHeads * kTileStride<bf16, head> * sizeof(bf16) + decode_result_bytes<head>(heads);
      const auto start = [&](auto kernel) {
        launch(context.stream, kernel, decode_grid(arguments, pages.heads), kDecodeWarps * kWarp,
               shared, arguments, typed_pages<bf16>(pages), partials);
      };
      if (queries.width % 8 == 0) {
        start(decode_kernel<head, true>);
      } else {
        start(decode_kernel<head, false>);
      }
    });
  }
  if (pass.decode_chunks > 1) {
    const dim3 grid(static_cast<unsigned>(pass.decode_count), static_cast<unsigned>(queries.heads));
    launch(context.stream, combine_kernel, grid, 128, 0, arguments, partials);
  }
}

}  // namespace hindsearch::cuda
