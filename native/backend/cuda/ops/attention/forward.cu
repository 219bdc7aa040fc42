// Attention of many new rows over pages, tile by tile with an online softmax (FlashAttention-2, Dao
// 2023): a block keeps its queries in shared memory and walks over the keys; sums stay in
// registers. A row's terms are added in an order that depends on nothing but its length.
#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/attention/block.h"
#include "native/backend/cuda/ops/attention/softmax.h"

namespace hindsearch::cuda {
namespace {

constexpr int kWarps = 4;

// kParts: products of 16 queries that a warp makes with each operand of keys or values it has read.
template <int kHead, int kParts>
struct Shape {
  static constexpr int kWarpVectors = 16 * kParts;
  static constexpr int kVectors = kWarps * kWarpVectors;
  // Fewer where scores and sums together would not fit the registers.
  static constexpr int kKeys = kHead * kParts <= 128 ? 64 : 32;
  static constexpr int kStride = kTileStride<bf16, kHead>;
  static constexpr std::size_t kSharedBytes = (kVectors + 2 * kKeys) * kStride * sizeof(bf16);
  static_assert(kSharedBytes <= 99 * 1024);
};

template <int kHead, int kParts>
__global__ void __launch_bounds__(kWarps* kWarp, 2)
    attention_kernel(AttentionArguments arguments, Pages<bf16> pages) {
  using S = Shape<kHead, kParts>;
  constexpr int kStride = S::kStride, kScores = S::kKeys / 8, kColumns = kHead / 8;
  QueryBlock block = query_block(arguments, pages.heads, S::kVectors);
  if (block.count <= 0) return;
  const ConstHeadsView& queries = arguments.queries;
  bf16* const query_tile = dynamic_shared<bf16>();
  bf16* const key_tile = query_tile + S::kVectors * kStride;
  bf16* const value_tile = key_tile + S::kKeys * kStride;
  load_tile<kHead, S::kVectors>(
      [&](int i) -> const float* { return i < block.count ? block.query(i, queries) : nullptr; },
      pages.head_dim, vector_rows<bf16>(queries.data, queries.row_stride, queries.width),
      query_tile);

  const std::int32_t* const table = arguments.pass.pages + block.sequence.first_page;
  const PagedRows<bf16> keys = paged_keys(pages, table, arguments.layer, block.kv_head);
  const PagedRows<bf16> values = paged_values(pages, table, arguments.layer, block.kv_head);
  const std::int32_t end = block.seen(block.count - 1);

  const Lane lane = lane_place();
  const int warp_first = static_cast<int>(threadIdx.x) / kWarp * S::kWarpVectors;
  const int warp_count =
      block.count - warp_first < S::kWarpVectors ? block.count - warp_first : S::kWarpVectors;
  // Keys that any query of the warp sees, and those of the lane.
  const std::int32_t longest = warp_count > 0 ? block.seen(warp_first + warp_count - 1) : 0;
  std::int32_t seen[kParts][2];
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      seen[i][half] = block.seen(warp_first + 16 * i + lane.g + 8 * half);
  }

  Softmax<kParts> softmax;
  softmax.clear();
  float sums[kParts][kColumns][4] = {};

  for (std::int32_t first = 0; first < end; first += S::kKeys) {
    __syncthreads();
    load_paged_tile<kHead, S::kKeys>(keys, first, end, key_tile);
    load_paged_tile<kHead, S::kKeys>(values, first, end, value_tile);
    __syncthreads();
    if (first >= longest) continue;

    float scores[kParts][kScores][4] = {};
#pragma unroll
    for (int k = 0; k < kHead; k += 16) {
      std::uint32_t a[kParts][4];
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        row_operand<kHead>(query_tile + (warp_first + 16 * i) * kStride + k, lane, a[i]);
      }
#pragma unroll
      for (int n = 0; n < kScores; ++n) {
        std::uint32_t b[2];
        column_operand<kHead>(key_tile + 8 * n * kStride + k, lane, b);
#pragma unroll
        for (int i = 0; i < kParts; ++i) mma_16x8x16(scores[i][n], a[i], b);
      }
    }
    if (first + S::kKeys > seen[0][0]) {
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int n = 0; n < kScores; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              if (first + 8 * n + swapped(2 * lane.t + e) >= seen[i][half])
                scores[i][n][2 * half + e] = -INFINITY;
            }
          }
        }
      }
    }
    exponentiate(scores, arguments.scale * kLog2e, softmax, sums);
#pragma unroll
    for (int k = 0; k < S::kKeys; k += 16) {
      std::uint32_t a[kParts][4];
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        left_operand(scores[i][k / 8], scores[i][k / 8 + 1], a[i]);
      }
#pragma unroll
      for (int d = 0; d < kHead; d += 32) {
        std::uint32_t b[4][2];
        paired_operand<kHead>(value_tile + k * kStride + d, lane, b);
#pragma unroll
        for (int q = 0; q < 4; ++q) {
#pragma unroll
          for (int i = 0; i < kParts; ++i) mma_16x8x16(sums[i][d / 8 + q], a[i], b[q]);
        }
      }
    }
  }

  // Once more, because registers are short in the loop above.
  block = query_block(arguments, pages.heads, S::kVectors);
  const std::int32_t width = pages.head_dim;
  const bool vectors = width % 4 == 0 && reinterpret_cast<std::uintptr_t>(arguments.out) % 16 == 0;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = softmax.total(i, half);
      const int vector = warp_first + 16 * i + lane.g + 8 * half;
      if (vector >= block.count) continue;
      const std::int64_t place = block.place(vector, arguments.queries.heads);
      if (arguments.statistics && lane.t == 0) {
        arguments.statistics[2 * place] = softmax.largest[i][half] * arguments.scale;
        arguments.statistics[2 * place + 1] = sum;
      }
      store_columns<kHead>(sums[i], half, 1 / sum, lane, width, vectors,
                           arguments.out + place * width);
    }
  }
}

template <int kHead, int kParts>
void launch_tiles(const Context& context, const AttentionArguments& arguments,
                  const Pages<bf16>& pages) {
  using S = Shape<kHead, kParts>;
  const std::int64_t blocks =
      arguments.pass.tile_count * pages.heads * blocks_of_tile(arguments.group, S::kVectors);
  launch(context.stream, attention_kernel<kHead, kParts>, dim3(static_cast<unsigned>(blocks)),
         kWarps * kWarp, S::kSharedBytes, arguments, pages);
}

}  // namespace

void attention(const Context& context, const ConstHeadsView& queries, const Pass& pass,
               const KvPages& pages, std::int32_t layer, float scale, float* out,
               float* statistics) {
  attention_decode(context, queries, pass, pages, layer, scale, out, statistics);
  if (pass.tile_count == 0) return;
  const std::int32_t group = static_cast<std::int32_t>(queries.heads) / pages.heads;
  const AttentionArguments arguments{queries, pass, layer, group, scale, out, statistics};
  if (context.compute == ComputeType::f32) {
    attention_plain(context, arguments, typed_pages<float>(pages));
    return;
  }
  for_head_class(queries.width, [&](auto head) {
    // Without a group a tile is 64 queries, 16 for a warp.
    constexpr int kHead = head, kParts = kHead <= 128 ? 2 : 1;
    if (group == 1) {
      launch_tiles<kHead, 1>(context, arguments, typed_pages<bf16>(pages));
    } else {
      launch_tiles<kHead, kParts>(context, arguments, typed_pages<bf16>(pages));
    }
  });
}

}  // namespace hindsearch::cuda
