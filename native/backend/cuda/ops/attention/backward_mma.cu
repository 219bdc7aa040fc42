// Gradient of attention by tensor cores: operands in bf16, sums, probabilities and gradients of
// scores in f32.
#include "native/backend/cuda/ops/attention/backward.h"
#include "native/backend/cuda/ops/attention/backward_tiles.h"

namespace hindsearch::cuda {
namespace {

// (shift, delta) of a query. One behind the sequence has no weight on any key.
__device__ inline float2 terms_of(const AttentionGradient<bf16>& gradient,
                                  const PassSequence& sequence, std::int32_t query,
                                  std::int32_t head) {
  if (query >= sequence.rows) return make_float2(INFINITY, 0);
  return gradient.terms[(std::int64_t{sequence.first_row} + query) * gradient.heads + head];
}

// Scores become probabilities, and the second products gradients of scores.
__device__ inline void score_gradient(bool seen, float scale, const float2& terms, float& s,
                                      float& ds) {
  const float p = __expf(fmaf(s, scale, -terms.x));
  ds = seen ? p * (ds - terms.y) : 0;
  s = seen ? p : 0;
}

// dk and dv of a tile of keys, columns `part` .. + kColumns - 1.
template <int kHead>
__device__ void key_gradient(const AttentionGradient<bf16>& gradient, const HeldRows& held,
                             std::int32_t kv_head, std::int32_t part) {
  using Size = GradientTiles<kHead>;
  constexpr int kRows = Size::kRows, kProducts = Size::kProducts, kGroups = Size::kColumns / 32;
  const auto& [sequence, first] = held;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Lane lane = lane_place();

  bf16* const keys = dynamic_shared<bf16>();
  bf16* const values = keys + kQueryTile * Size::kStride;
  bf16* const queries = values + kQueryTile * Size::kStride;
  bf16* const d_out = queries + kRows * Size::kStride;
  float2* const terms = reinterpret_cast<float2*>(d_out + kRows * Size::kStride);

  const std::int32_t* table = gradient.pass.pages + sequence.first_page;
  load_paged_tile<kHead, kQueryTile>(paged_keys(gradient.pages, table, gradient.layer, kv_head),
                                     first, sequence.rows, keys);
  load_paged_tile<kHead, kQueryTile>(paged_values(gradient.pages, table, gradient.layer, kv_head),
                                     first, sequence.rows, values);
  const std::int32_t key = first + 16 * warp;
  float d_keys[kGroups][4][4]{}, d_values[kGroups][4][4]{};
  for (std::int32_t i = 0; i < gradient.group; ++i) {
    const std::int32_t head = kv_head * gradient.group + i;
    for (std::int32_t query = first; query < sequence.rows; query += kRows) {
      Share<kHead, kRows> next_queries, next_d_out;
      const int r = static_cast<int>(threadIdx.x);
      next_queries.load(head_rows(gradient.queries, sequence, query, head), gradient.row_width,
                        true);
      next_d_out.load(head_rows(gradient.d_out, sequence, query, head), gradient.row_width, true);
      const float2 next = r < kRows ? terms_of(gradient, sequence, query + r, head) : float2{};
      __syncthreads();
      next_queries.store(queries);
      next_d_out.store(d_out);
      if (r < kRows) terms[r] = next;
      __syncthreads();
      if (key >= sequence.rows || query + kRows <= key) continue;
      float p[kProducts][4], ds[kProducts][4];
      multiply_rows<kHead>(keys + 16 * warp * Size::kStride, queries, lane, p);
      multiply_rows<kHead>(values + 16 * warp * Size::kStride, d_out, lane, ds);
#pragma unroll
      for (int n = 0; n < kProducts; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 8 * n + swapped(2 * lane.t + e % 2);
          score_gradient(key + lane.g + e / 2 * 8 <= query + column, gradient.scale, terms[column],
                         p[n][e], ds[n][e]);
        }
      }
      add_weighted<kHead>(p, d_out + part, lane, d_values);
      add_weighted<kHead>(ds, queries + part, lane, d_keys);
    }
  }
  store_sums(gradient.d_keys, sequence, key, kv_head, part, gradient.scale, lane, d_keys);
  store_sums(gradient.d_values, sequence, key, kv_head, part, 1, lane, d_values);
}

// dq of a tile of queries.
template <int kHead>
__device__ void query_gradient(const AttentionGradient<bf16>& gradient, const HeldRows& held,
                               std::int32_t head) {
  using Size = GradientTiles<kHead>;
  constexpr int kRows = Size::kRows, kProducts = Size::kProducts;
  const auto& [sequence, first] = held;
  const std::int32_t kv_head = head / gradient.group;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Lane lane = lane_place();

  bf16* const queries = dynamic_shared<bf16>();
  bf16* const d_out = queries + kQueryTile * Size::kStride;
  bf16* const keys = d_out + kQueryTile * Size::kStride;
  bf16* const values = keys + kRows * Size::kStride;

  load_tile<kHead, kQueryTile>(head_rows(gradient.queries, sequence, first, head),
                               gradient.row_width, gradient.vectors, queries);
  load_tile<kHead, kQueryTile>(head_rows(gradient.d_out, sequence, first, head), gradient.row_width,
                               gradient.vectors, d_out);
  const std::int32_t query = first + 16 * warp;
  const float2 terms[2] = {terms_of(gradient, sequence, query + lane.g, head),
                           terms_of(gradient, sequence, query + lane.g + 8, head)};
  const std::int32_t* table = gradient.pass.pages + sequence.first_page;
  const PagedRows<bf16> paged_k = paged_keys(gradient.pages, table, gradient.layer, kv_head);
  const PagedRows<bf16> paged_v = paged_values(gradient.pages, table, gradient.layer, kv_head);
  const bool vectors = paged_k.width % kTileVector<bf16> == 0;
  const std::int32_t end = first + kQueryTile < sequence.rows ? first + kQueryTile : sequence.rows;
  float d_queries[kHead / 32][4][4]{};
  for (std::int32_t key = 0; key < end; key += kRows) {
    Share<kHead, kRows> next_keys, next_values;
    next_keys.load(page_rows(paged_k, key, end), paged_k.width, vectors);
    next_values.load(page_rows(paged_v, key, end), paged_v.width, vectors);
    __syncthreads();
    next_keys.store(keys);
    next_values.store(values);
    __syncthreads();
    if (query >= sequence.rows || key > query + 15) continue;
    float p[kProducts][4], ds[kProducts][4];
    multiply_rows<kHead>(queries + 16 * warp * Size::kStride, keys, lane, p);
    multiply_rows<kHead>(d_out + 16 * warp * Size::kStride, values, lane, ds);
#pragma unroll
    for (int n = 0; n < kProducts; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = 8 * n + swapped(2 * lane.t + e % 2);
        score_gradient(key + column <= query + lane.g + e / 2 * 8, gradient.scale, terms[e / 2],
                       p[n][e], ds[n][e]);
      }
    }
    add_weighted<kHead>(ds, keys, lane, d_queries);
  }
  store_sums(gradient.d_queries, sequence, query, head, 0, gradient.scale, lane, d_queries);
}

// Both, so that the many short blocks of the second kind fill the multiprocessors that the long
// ones of the first leave early. Tiles come in the order of the pass, the longest first.
template <int kHead>
__global__ void __launch_bounds__(kGradientThreads, GradientTiles<kHead>::kBlocks)
    gradient_kernel(AttentionGradient<bf16> gradient, std::int32_t key_blocks) {
  constexpr int kParts = kHead / GradientTiles<kHead>::kColumns;
  auto block = static_cast<std::int32_t>(blockIdx.x);
  if (block < key_blocks) {
    const int kv_heads = gradient.heads / gradient.group, part = block % kParts;
    block /= kParts;
    const HeldRows held = held_keys(gradient.pass, block / kv_heads);
    if (held.first < held.sequence.rows)
      key_gradient<kHead>(gradient, held, block % kv_heads, part * GradientTiles<kHead>::kColumns);
  } else {
    block -= key_blocks;
    const HeldRows held = held_queries(gradient.pass, block / gradient.heads);
    if (held.first < held.sequence.rows)
      query_gradient<kHead>(gradient, held, block % gradient.heads);
  }
}

}  // namespace

void attention_gradient(const Context& context, const AttentionGradient<bf16>& gradient) {
  const std::int32_t tiles = held_tiles(gradient.pass);
  for_head_class(gradient.pages.head_dim, [&]<int kHead>(std::integral_constant<int, kHead>) {
    using Size = GradientTiles<kHead>;
    const std::int32_t key_blocks =
        tiles * (gradient.heads / gradient.group) * (kHead / Size::kColumns);
    launch(context.stream, gradient_kernel<kHead>,
           dim3(static_cast<unsigned>(key_blocks + tiles * gradient.heads)), kGradientThreads,
           Size::kTiles + Size::kRows * sizeof(float2), gradient, key_blocks);
  });
}

}  // namespace hindsearch::cuda
