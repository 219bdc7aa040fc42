// The f32 twin of forward.cu, without tensor cores: the same blocks and the same online softmax.
#include <cmath>

#include "native/backend/cuda/ops/attention/block.h"

namespace hindsearch::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kVectors = 32;  // 8 a warp, 2 a lane
constexpr int kKeys = 32;     // 4 a lane
constexpr int kWeightStride = kKeys + 4;

template <int kHead>
constexpr std::size_t kSharedBytes =
    ((kVectors + kKeys) * kTileStride<float, kHead> + kVectors * kWeightStride) * sizeof(float);

__device__ float4 shared_vector(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

__device__ float dot4(const float4& x, const float4& y, float sum) {
  return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
}

__device__ void add4(float weight, const float4& x, float4& sum) {
  sum.x = fmaf(weight, x.x, sum.x);
  sum.y = fmaf(weight, x.y, sum.y);
  sum.z = fmaf(weight, x.z, sum.z);
  sum.w = fmaf(weight, x.w, sum.w);
}

// Largest and total of the eight lanes that share a query.
__device__ float largest8(float x) {
  for (int step = 1; step < 8; step *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
__device__ float total8(float x) {
  for (int step = 1; step < 8; step *= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// A lane has the queries first and first + 1, of keys those with its column modulo 8, and of values
// four columns in each 32.
template <int kHead>
__global__ void __launch_bounds__(kWarps* kWarp, 3)
    plain_kernel(AttentionArguments arguments, Pages<float> pages) {
  constexpr int kStride = kTileStride<float, kHead>, kLaneKeys = kKeys / 8, kColumns = kHead / 32;
  const QueryBlock block = query_block(arguments, pages.heads, kVectors);
  if (block.count <= 0) return;
  const ConstHeadsView& queries = arguments.queries;
  float* const query_tile = dynamic_shared<float>();
  float* const tile = query_tile + kVectors * kStride;  // of keys, then of values
  float* const weights = tile + kKeys * kStride;
  load_tile<kHead, kVectors>(
      [&](int i) -> const float* { return i < block.count ? block.query(i, queries) : nullptr; },
      pages.head_dim, vector_rows<float>(queries.data, queries.row_stride, queries.width),
      query_tile);
  const std::int32_t* const table = arguments.pass.pages + block.sequence.first_page;
  const PagedRows<float> keys = paged_keys(pages, table, arguments.layer, block.kv_head);
  const PagedRows<float> values = paged_values(pages, table, arguments.layer, block.kv_head);
  const std::int32_t end = block.seen(block.count - 1);

  const int column = static_cast<int>(threadIdx.x) % 8, own = static_cast<int>(threadIdx.x) / 8 * 2;
  const std::int32_t seen[2] = {block.seen(own), block.seen(own + 1)};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  float4 sums[2][kColumns] = {};

  for (std::int32_t first = 0; first < end; first += kKeys) {
    __syncthreads();
    load_paged_tile<kHead, kKeys>(keys, first, end, tile);
    __syncthreads();
    float scores[2][kLaneKeys] = {};
#pragma unroll 4
    for (int d = 0; d < kHead; d += 4) {
      const float4 q0 = shared_vector(query_tile + own * kStride + d);
      const float4 q1 = shared_vector(query_tile + (own + 1) * kStride + d);
#pragma unroll
      for (int j = 0; j < kLaneKeys; ++j) {
        const float4 key = shared_vector(tile + (column + 8 * j) * kStride + d);
        scores[0][j] = dot4(q0, key, scores[0][j]);
        scores[1][j] = dot4(q1, key, scores[1][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float most = largest[i];
#pragma unroll
      for (int j = 0; j < kLaneKeys; ++j) {
        scores[i][j] =
            first + column + 8 * j < seen[i] ? scores[i][j] * arguments.scale : -INFINITY;
        most = fmaxf(most, scores[i][j]);
      }
      most = largest8(most);
      const float factor = most > largest[i] ? expf(largest[i] - most) : 1;
      largest[i] = most;
      sum[i] *= factor;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        sums[i][n].x *= factor;
        sums[i][n].y *= factor;
        sums[i][n].z *= factor;
        sums[i][n].w *= factor;
      }
#pragma unroll
      for (int j = 0; j < kLaneKeys; ++j) {
        const float weight = expf(scores[i][j] - most);
        sum[i] += weight;
        weights[(own + i) * kWeightStride + column + 8 * j] = weight;
      }
    }
    __syncthreads();
    load_paged_tile<kHead, kKeys>(values, first, end, tile);
    __syncthreads();
#pragma unroll 2
    for (int j = 0; j < kKeys; ++j) {
      const float weight0 = weights[own * kWeightStride + j];
      const float weight1 = weights[(own + 1) * kWeightStride + j];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const float4 value = shared_vector(tile + j * kStride + 32 * n + 4 * column);
        add4(weight0, value, sums[0][n]);
        add4(weight1, value, sums[1][n]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float all = total8(sum[i]);
    if (own + i >= block.count) continue;
    const std::int64_t place = block.place(own + i, queries.heads);
    if (arguments.statistics && column == 0) {
      arguments.statistics[2 * place] = largest[i];
      arguments.statistics[2 * place + 1] = all;
    }
    float* out = arguments.out + place * pages.head_dim;
    const float inverse = 1 / all;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const float x[4] = {sums[i][n].x, sums[i][n].y, sums[i][n].z, sums[i][n].w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int d = 32 * n + 4 * column + e;
        if (d < pages.head_dim) out[d] = x[e] * inverse;
      }
    }
  }
}

}  // namespace

void attention_plain(const Context& context, const AttentionArguments& arguments,
                     const Pages<float>& pages) {
  const std::int64_t blocks =
      arguments.pass.tile_count * pages.heads * blocks_of_tile(arguments.group, kVectors);
  for_head_class(pages.head_dim, [&](auto head) {
    launch(context.stream, plain_kernel<head>, dim3(static_cast<unsigned>(blocks)), kWarps * kWarp,
           kSharedBytes<head>, arguments, pages);
  });
}

}  // namespace hindsearch::cuda
