// Gradient of attention in f32, without tensor cores. A warp holds four rows of its block's tile;
// its lanes share out their scores, and then the columns of their sums.
#include "native/backend/cuda/ops/attention/backward.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarpRows = 4;
constexpr int kHeldRows = kThreads / kWarp * kWarpRows;
constexpr int kParts = kQueryTile / kHeldRows;  // blocks of a tile
// Between two rows of weights: the lanes that write a column of them meet no bank twice.
constexpr int kWeightStride = kHeldRows + 4;

template <int kHead>
struct Sizes {
  static constexpr int kStride = kTileStride<float, kHead>;
  // Rows that pass by at once. With more, the tiles of the widest heads would not fit into the 99
  // KiB of a block.
  static constexpr int kRows = kHead > 128 ? 8 : 16;
  static constexpr int kColumns = kHead / kWarp;  // of a lane
  static constexpr std::size_t kShared =
      (2 * (kHeldRows + kRows) * kStride + 2 * kRows * kWeightStride) * sizeof(float);
};

template <int kHead>
__device__ float dot(const float* x, const float* y) {
  float sum = 0;
#pragma unroll 4
  for (int d = 0; d < kHead; d += 4) {
    const float4 a = *reinterpret_cast<const float4*>(x + d);
    const float4 b = *reinterpret_cast<const float4*>(y + d);
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    sum = fmaf(a.w, b.w, sum);
  }
  return sum;
}

// sums[r][i] += weights of the warp's row r times column lane + 32 i of kRows rows.
template <int kHead>
__device__ void add_weighted(const float* weights, const float* rows, int lane,
                             float (&sums)[kWarpRows][Sizes<kHead>::kColumns]) {
#pragma unroll 4
  for (int m = 0; m < Sizes<kHead>::kRows; ++m) {
    const float4 w = *reinterpret_cast<const float4*>(weights + m * kWeightStride);
#pragma unroll
    for (int i = 0; i < Sizes<kHead>::kColumns; ++i) {
      const float x = rows[m * Sizes<kHead>::kStride + lane + kWarp * i];
      sums[0][i] = fmaf(w.x, x, sums[0][i]);
      sums[1][i] = fmaf(w.y, x, sums[1][i]);
      sums[2][i] = fmaf(w.z, x, sums[2][i]);
      sums[3][i] = fmaf(w.w, x, sums[3][i]);
    }
  }
}

template <int kColumns>
__device__ void store_sums(const HeadsView& view, const PassSequence& sequence, std::int32_t row,
                           std::int32_t head, float scale, int lane,
                           const float (&sums)[kWarpRows][kColumns]) {
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    if (row + r >= sequence.rows) return;
    float* to = view.data + (std::int64_t{sequence.first_row} + row + r) * view.row_stride +
                head * view.width;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (lane + kWarp * i < view.width) to[lane + kWarp * i] = sums[r][i] * scale;
    }
  }
}

struct Weights {
  float p, ds;
};
// Of `query` on a key, from s = q . k and do . v. What is not to be seen has no weight, whatever
// its numbers are.
__device__ inline Weights weights_of(const AttentionGradient<float>& gradient,
                                     const PassSequence& sequence, std::int32_t query,
                                     std::int32_t key, std::int32_t head, float s, float d_out_v) {
  if (query >= sequence.rows || key > query) return {0, 0};
  const std::int64_t cell = (std::int64_t{sequence.first_row} + query) * gradient.heads + head;
  const float* statistics = gradient.statistics + 2 * cell;
  const float p = expf(s * gradient.scale - statistics[0]) / statistics[1];
  return {p, p * (d_out_v - gradient.terms[cell].y)};
}

// dk and dv of half a tile of keys: x counts tiles, y key/value heads, z halves.
template <int kHead>
__global__ void __launch_bounds__(kThreads, 2)
    key_gradient_kernel(AttentionGradient<float> gradient) {
  using Size = Sizes<kHead>;
  auto [sequence, first] = held_keys(gradient.pass, static_cast<std::int32_t>(blockIdx.x));
  first += static_cast<int>(blockIdx.z) * kHeldRows;
  if (first >= sequence.rows) return;
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int own = static_cast<int>(threadIdx.x) / kWarp * kWarpRows;  // first row of the warp
  const int held = own + lane / 8;                                    // row of the lane's scores

  float* const keys = dynamic_shared<float>();
  float* const values = keys + kHeldRows * Size::kStride;
  float* const queries = values + kHeldRows * Size::kStride;
  float* const d_out = queries + Size::kRows * Size::kStride;
  float* const p = d_out + Size::kRows * Size::kStride;
  float* const ds = p + Size::kRows * kWeightStride;

  const std::int32_t* table = gradient.pass.pages + sequence.first_page;
  load_paged_tile<kHead, kHeldRows>(paged_keys(gradient.pages, table, gradient.layer, kv_head),
                                    first, sequence.rows, keys);
  load_paged_tile<kHead, kHeldRows>(paged_values(gradient.pages, table, gradient.layer, kv_head),
                                    first, sequence.rows, values);
  float d_keys[kWarpRows][Size::kColumns]{}, d_values[kWarpRows][Size::kColumns]{};
  for (std::int32_t i = 0; i < gradient.group; ++i) {
    const std::int32_t head = kv_head * gradient.group + i;
    for (std::int32_t query = first; query < sequence.rows; query += Size::kRows) {
      __syncthreads();
      load_tile<kHead, Size::kRows>(head_rows(gradient.queries, sequence, query, head),
                                    gradient.row_width, gradient.vectors, queries);
      load_tile<kHead, Size::kRows>(head_rows(gradient.d_out, sequence, query, head),
                                    gradient.row_width, gradient.vectors, d_out);
      __syncthreads();
      for (int m = lane % 8; m < Size::kRows; m += 8) {
        const Weights weights =
            weights_of(gradient, sequence, query + m, first + held, head,
                       dot<kHead>(keys + held * Size::kStride, queries + m * Size::kStride),
                       dot<kHead>(values + held * Size::kStride, d_out + m * Size::kStride));
        p[m * kWeightStride + held] = weights.p;
        ds[m * kWeightStride + held] = weights.ds;
      }
      __syncwarp();
      add_weighted<kHead>(p + own, d_out, lane, d_values);
      add_weighted<kHead>(ds + own, queries, lane, d_keys);
    }
  }
  store_sums(gradient.d_keys, sequence, first + own, kv_head, gradient.scale, lane, d_keys);
  store_sums(gradient.d_values, sequence, first + own, kv_head, 1, lane, d_values);
}

// dq of half a tile of queries: x counts tiles, y heads, z halves.
template <int kHead>
__global__ void __launch_bounds__(kThreads, 2)
    query_gradient_kernel(AttentionGradient<float> gradient) {
  using Size = Sizes<kHead>;
  auto [sequence, first] = held_queries(gradient.pass, static_cast<std::int32_t>(blockIdx.x));
  first += static_cast<int>(blockIdx.z) * kHeldRows;
  if (first >= sequence.rows) return;
  const auto head = static_cast<std::int32_t>(blockIdx.y), kv_head = head / gradient.group;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int own = static_cast<int>(threadIdx.x) / kWarp * kWarpRows;
  const int held = own + lane / 8;

  float* const queries = dynamic_shared<float>();
  float* const d_out = queries + kHeldRows * Size::kStride;
  float* const keys = d_out + kHeldRows * Size::kStride;
  float* const values = keys + Size::kRows * Size::kStride;
  float* const ds = values + Size::kRows * Size::kStride;

  load_tile<kHead, kHeldRows>(head_rows(gradient.queries, sequence, first, head),
                              gradient.row_width, gradient.vectors, queries);
  load_tile<kHead, kHeldRows>(head_rows(gradient.d_out, sequence, first, head), gradient.row_width,
                              gradient.vectors, d_out);
  const std::int32_t* table = gradient.pass.pages + sequence.first_page;
  const PagedRows<float> paged_k = paged_keys(gradient.pages, table, gradient.layer, kv_head);
  const PagedRows<float> paged_v = paged_values(gradient.pages, table, gradient.layer, kv_head);
  const std::int32_t end = first + kHeldRows < sequence.rows ? first + kHeldRows : sequence.rows;
  float d_queries[kWarpRows][Size::kColumns]{};
  for (std::int32_t key = 0; key < end; key += Size::kRows) {
    __syncthreads();
    load_paged_tile<kHead, Size::kRows>(paged_k, key, end, keys);
    load_paged_tile<kHead, Size::kRows>(paged_v, key, end, values);
    __syncthreads();
    for (int m = lane % 8; m < Size::kRows; m += 8) {
      ds[m * kWeightStride + held] =
          weights_of(gradient, sequence, first + held, key + m, head,
                     dot<kHead>(queries + held * Size::kStride, keys + m * Size::kStride),
                     dot<kHead>(d_out + held * Size::kStride, values + m * Size::kStride))
              .ds;
    }
    __syncwarp();
    add_weighted<kHead>(ds + own, keys, lane, d_queries);
  }
  store_sums(gradient.d_queries, sequence, first + own, head, gradient.scale, lane, d_queries);
}

}  // namespace

void attention_gradient(const Context& context, const AttentionGradient<float>& gradient) {
  const auto blocks = static_cast<unsigned>(held_tiles(gradient.pass));
  const auto heads = static_cast<unsigned>(gradient.heads);
  for_head_class(gradient.pages.head_dim, [&]<int kHead>(std::integral_constant<int, kHead>) {
    launch(context.stream, key_gradient_kernel<kHead>,
           dim3(blocks, heads / static_cast<unsigned>(gradient.group), kParts), kThreads,
           Sizes<kHead>::kShared, gradient);
    launch(context.stream, query_gradient_kernel<kHead>, dim3(blocks, heads, kParts), kThreads,
           Sizes<kHead>::kShared, gradient);
  });
}

}  // namespace hindsearch::cuda
