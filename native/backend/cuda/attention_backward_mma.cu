// Gradient of attention by tensor cores: operands in bf16, sums, probabilities and gradients of
// scores in f32. A warp holds 16 rows of its block's tile.
#include "native/backend/cuda/attention_backward.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = kQueryTile / 16 * kWarp;

template <int kHead>
struct Sizes {
  static constexpr int kStride = kTileStride<bf16, kHead>;
  // Rows that pass by at once. With more, the tiles of the widest heads would not fit into the 99
  // KiB of a block.
  static constexpr int kRows = kHead > 128 ? 16 : 32;
  static constexpr int kProducts = kRows / 8;
  // Columns of dk and dv that a block adds up: with more, their sums would not fit into registers.
  static constexpr int kColumns = kHead > 128 ? 128 : kHead;
  static constexpr std::size_t kTiles = 2 * (kQueryTile + kRows) * kStride * sizeof(bf16);
  static constexpr int kBlocks = kHead > 64 ? 2 : 3;  // on a multiprocessor, by their registers
};

// c[16 x 8 kProducts] = 16 rows of `rows` times 8 kProducts rows of `columns`.
template <int kHead, int kProducts>
__device__ void multiply_rows(const bf16* rows, const bf16* columns, const Lane& lane,
                              float (&c)[kProducts][4]) {
#pragma unroll
  for (int n = 0; n < kProducts; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
  for (int d = 0; d < kHead; d += 16) {
    std::uint32_t a[4], b[2];
    row_operand<kHead>(rows + d, lane, a);
#pragma unroll
    for (int n = 0; n < kProducts; ++n) {
      column_operand<kHead>(columns + 8 * n * kTileStride<bf16, kHead> + d, lane, b);
      mma_16x8x16(c[n], a, b);
    }
  }
}

// c[16 x 32 kGroups] += w[16 x 8 kProducts], rounded to bf16, times 8 kProducts rows of `rows`.
template <int kHead, int kProducts, int kGroups>
__device__ void add_weighted(const float (&w)[kProducts][4], const bf16* rows, const Lane& lane,
                             float (&c)[kGroups][4][4]) {
#pragma unroll
  for (int n = 0; n < kProducts; n += 2) {
    std::uint32_t a[4], b[4][2];
    left_operand(w[n], w[n + 1], a);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      paired_operand<kHead>(rows + 8 * n * kTileStride<bf16, kHead> + 32 * group, lane, b);
#pragma unroll
      for (int q = 0; q < 4; ++q) mma_16x8x16(c[group][q], a, b[q]);
    }
  }
}

// Four columns of a row of a result. `vectors`: they lie at a 16-byte boundary.
__device__ inline void store_columns(const HeadsView& view, std::int64_t row, std::int32_t head,
                                     std::int32_t column, bool vectors, const float4& x) {
  float* to = view.data + row * view.row_stride + head * view.width + column;
  if (vectors && column < view.width) {
    *reinterpret_cast<float4*>(to) = x;
    return;
  }
  if (column < view.width) to[0] = x.x;
  if (column + 1 < view.width) to[1] = x.y;
  if (column + 2 < view.width) to[2] = x.z;
  if (column + 3 < view.width) to[3] = x.w;
}

// The warp's 16 rows from `row` of the sequence on, columns from `column` on.
template <int kGroups>
__device__ void store_sums(const HeadsView& view, const PassSequence& sequence, std::int32_t row,
                           std::int32_t head, std::int32_t column, float scale, const Lane& lane,
                           const float (&c)[kGroups][4][4]) {
  const bool vectors = vector_rows<float>(view.data, view.row_stride, view.width);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int32_t r = row + lane.g + 8 * half;
    if (r >= sequence.rows) continue;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int four = 0; four < 2; ++four) {
        const int i = 2 * half + four;
        store_columns(view, std::int64_t{sequence.first_row} + r, head,
                      column + 32 * group + 8 * lane.t + 4 * four, vectors,
                      make_float4(c[group][0][i] * scale, c[group][1][i] * scale,
                                  c[group][2][i] * scale, c[group][3][i] * scale));
      }
    }
  }
}

// Scores become probabilities and gradients of scores: p = exp(scale s - shift), shift the
// logarithm of the sum of exponentials.
__device__ inline void score_gradient(bool seen, float scale, float shift, float delta, float& s,
                                      float& ds) {
  const float p = __expf(fmaf(s, scale, -shift));
  ds = seen ? p * (ds - delta) : 0;
  s = seen ? p : 0;
}
__device__ inline float shift_of(const float* statistics, std::int64_t cell) {
  return statistics[2 * cell] + logf(statistics[2 * cell + 1]);
}

// dk and dv of a tile of keys: x counts tiles, y key/value heads, z parts of kColumns columns.
template <int kHead>
__global__ void __launch_bounds__(kThreads, Sizes<kHead>::kBlocks)
    key_gradient_kernel(AttentionGradient<bf16> gradient) {
  using Size = Sizes<kHead>;
  constexpr int kRows = Size::kRows, kProducts = Size::kProducts, kGroups = Size::kColumns / 32;
  const auto [sequence, first] = held_keys(gradient.pass);
  if (first >= sequence.rows) return;
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const int part = static_cast<int>(blockIdx.z) * Size::kColumns;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Lane lane = lane_place();

  bf16* const keys = dynamic_shared<bf16>();
  bf16* const values = keys + kQueryTile * Size::kStride;
  bf16* const queries = values + kQueryTile * Size::kStride;
  bf16* const d_out = queries + kRows * Size::kStride;
  float* const shifts = reinterpret_cast<float*>(d_out + kRows * Size::kStride);
  float* const deltas = shifts + kRows;

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
      __syncthreads();
      load_head_rows<kHead, kRows>(gradient, gradient.queries, sequence, query, head, queries);
      load_head_rows<kHead, kRows>(gradient, gradient.d_out, sequence, query, head, d_out);
      if (const int r = static_cast<int>(threadIdx.x); r < kRows) {
        // A query behind the sequence has no weight on any key.
        const bool inside = query + r < sequence.rows;
        const std::int64_t cell =
            (std::int64_t{sequence.first_row} + query + r) * gradient.heads + head;
        shifts[r] = inside ? shift_of(gradient.statistics, cell) : INFINITY;
        deltas[r] = inside ? gradient.deltas[cell] : 0;
      }
      __syncthreads();
      if (key >= sequence.rows || query + kRows <= key) continue;
      float p[kProducts][4], ds[kProducts][4];
      multiply_rows<kHead>(keys + 16 * warp * Size::kStride, queries, lane, p);
      multiply_rows<kHead>(values + 16 * warp * Size::kStride, d_out, lane, ds);
#pragma unroll
      for (int n = 0; n < kProducts; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = 8 * n + swapped(2 * lane.t + e % 2);
          score_gradient(key + lane.g + e / 2 * 8 <= query + r, gradient.scale, shifts[r],
                         deltas[r], p[n][e], ds[n][e]);
        }
      }
      add_weighted<kHead>(p, d_out + part, lane, d_values);
      add_weighted<kHead>(ds, queries + part, lane, d_keys);
    }
  }
  store_sums(gradient.d_keys, sequence, key, kv_head, part, gradient.scale, lane, d_keys);
  store_sums(gradient.d_values, sequence, key, kv_head, part, 1, lane, d_values);
}

// dq of a tile of queries: x counts tiles, y heads.
template <int kHead>
__global__ void __launch_bounds__(kThreads, Sizes<kHead>::kBlocks)
    query_gradient_kernel(AttentionGradient<bf16> gradient) {
  using Size = Sizes<kHead>;
  constexpr int kRows = Size::kRows, kProducts = Size::kProducts;
  const auto [sequence, first] = held_queries(gradient.pass);
  if (first >= sequence.rows) return;
  const auto head = static_cast<std::int32_t>(blockIdx.y), kv_head = head / gradient.group;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Lane lane = lane_place();

  bf16* const queries = dynamic_shared<bf16>();
  bf16* const d_out = queries + kQueryTile * Size::kStride;
  bf16* const keys = d_out + kQueryTile * Size::kStride;
  bf16* const values = keys + kRows * Size::kStride;

  load_head_rows<kHead, kQueryTile>(gradient, gradient.queries, sequence, first, head, queries);
  load_head_rows<kHead, kQueryTile>(gradient, gradient.d_out, sequence, first, head, d_out);
  const std::int32_t query = first + 16 * warp;
  float shifts[2], deltas[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int32_t row = query + lane.g + 8 * half;
    const bool inside = row < sequence.rows;
    const std::int64_t cell = (std::int64_t{sequence.first_row} + row) * gradient.heads + head;
    shifts[half] = inside ? shift_of(gradient.statistics, cell) : INFINITY;
    deltas[half] = inside ? gradient.deltas[cell] : 0;
  }
  const std::int32_t* table = gradient.pass.pages + sequence.first_page;
  const PagedRows<bf16> paged_k = paged_keys(gradient.pages, table, gradient.layer, kv_head);
  const PagedRows<bf16> paged_v = paged_values(gradient.pages, table, gradient.layer, kv_head);
  const std::int32_t end = first + kQueryTile < sequence.rows ? first + kQueryTile : sequence.rows;
  float d_queries[kHead / 32][4][4]{};
  for (std::int32_t key = 0; key < end; key += kRows) {
    __syncthreads();
    load_paged_tile<kHead, kRows>(paged_k, key, end, keys);
    load_paged_tile<kHead, kRows>(paged_v, key, end, values);
    __syncthreads();
    if (query >= sequence.rows || key > query + 15) continue;
    float p[kProducts][4], ds[kProducts][4];
    multiply_rows<kHead>(queries + 16 * warp * Size::kStride, keys, lane, p);
    multiply_rows<kHead>(d_out + 16 * warp * Size::kStride, values, lane, ds);
#pragma unroll
    for (int n = 0; n < kProducts; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = 8 * n + swapped(2 * lane.t + e % 2);
        score_gradient(key + r <= query + lane.g + e / 2 * 8, gradient.scale, shifts[e / 2],
                       deltas[e / 2], p[n][e], ds[n][e]);
      }
    }
    add_weighted<kHead>(ds, keys, lane, d_queries);
  }
  store_sums(gradient.d_queries, sequence, query, head, 0, gradient.scale, lane, d_queries);
}

}  // namespace

void attention_gradient(const Context& context, const AttentionGradient<bf16>& gradient) {
  const auto blocks = static_cast<unsigned>(held_blocks(gradient.pass));
  const auto heads = static_cast<unsigned>(gradient.heads);
  for_head_class(gradient.pages.head_dim, [&]<int kHead>(std::integral_constant<int, kHead>) {
    using Size = Sizes<kHead>;
    launch(context.stream, key_gradient_kernel<kHead>,
           dim3(blocks, heads / static_cast<unsigned>(gradient.group), kHead / Size::kColumns),
           kThreads, Size::kTiles + 2 * Size::kRows * sizeof(float), gradient);
    launch(context.stream, query_gradient_kernel<kHead>, dim3(blocks, heads), kThreads,
           Size::kTiles, gradient);
  });
}

}  // namespace hindsearch::cuda
