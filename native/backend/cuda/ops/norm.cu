#include <algorithm>
#include <bit>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/quad.h"
#include "native/backend/cuda/ops/warp.h"

namespace hindsearch::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kBlockThreads = 256;  // of a block with several rows

// The threads that share a row, a power of two fixed by its width: part of a warp, a warp, or a
// block to itself. "Row" means one head of one row here.
int threads_for(std::int64_t width) {
  const auto quads = std::bit_ceil(static_cast<std::uint64_t>(ceil_div(width, kQuad)));
  const std::uint64_t threads =
      quads <= 2 * kWarp ? std::min<std::uint64_t>(quads, kWarp) : quads / 2;
  return static_cast<int>(std::min<std::uint64_t>(threads, kMostThreads));
}

// How a block divides into groups, one to a row.
struct Groups {
  int threads;  // of a group
  int count;    // in a block
};
Groups groups_for(std::int64_t width) {
  const int threads = threads_for(width);
  return {threads, threads > kWarp ? 1 : kBlockThreads / threads};
}

// The sum over the threads of a group, in a tree that its size fixes. `scratch` holds kWarp floats,
// which two calls in a row must not share.
__device__ __forceinline__ float group_sum(float x, int threads, float* scratch) {
  if (threads < kWarp) {
    for (int step = threads / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
    return x;
  }
  x = warp_sum(x);
  if (threads == kWarp) return x;
  if (lane_id() == 0) scratch[warp_id()] = x;
  __syncthreads();
  return warp_sum(lane_id() < threads / kWarp ? scratch[lane_id()] : 0.0f);
}

template <class View>
__device__ __forceinline__ auto* row_of(const View& view, std::int32_t item) {
  const auto heads = static_cast<std::int32_t>(view.heads);
  return view.data + (item / heads) * view.row_stride + (item % heads) * view.width;
}

// y has the heads of x, and rows `y_stride` of T apart.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_kernel(ConstHeadsView x, const float* weight, float epsilon, T* y,
                    std::int64_t y_stride, float* inv_rms, Groups groups, std::int32_t items) {
  const int lane = static_cast<int>(threadIdx.x) % groups.threads;
  const std::int32_t item = static_cast<std::int32_t>(blockIdx.x) * groups.count +
                            static_cast<std::int32_t>(threadIdx.x) / groups.threads;
  const bool present = item < items;
  // What a group without a row never reads.
  const float* from = present ? row_of(x, item) : x.data;
  const std::int64_t width = present ? x.width : 0, step = groups.threads * kQuad;
  float squares = 0;
#pragma unroll 4
  for (std::int64_t i = lane * kQuad; i < width; i += step) {
    const Quad quad = load_quad(from + i, width - i, kWhole);
#pragma unroll
    for (int c = 0; c < kQuad; ++c) squares = fmaf(quad.at[c], quad.at[c], squares);
  }
  squares = group_sum(squares, groups.threads, dynamic_shared<float>());
  if (!present) return;
  const float inv = 1 / sqrtf(squares / static_cast<float>(width) + epsilon);
  const auto heads = static_cast<std::int32_t>(x.heads);
  T* const to = y + (item / heads) * y_stride + (item % heads) * x.width;
#pragma unroll 4
  for (std::int64_t i = lane * kQuad; i < width; i += step) {
    const Quad scale = load_quad(weight + i, width - i, kWhole);
    Quad quad = load_quad(from + i, width - i, kWhole);
#pragma unroll
    for (int c = 0; c < kQuad; ++c) quad.at[c] = quad.at[c] * inv * scale.at[c];
    store_quad(to + i, width - i, kWhole, quad);
  }
  if (inv_rms && lane == 0) inv_rms[item] = inv;
}

// Rows of a group of the backward, fixed by the number of rows alone: enough blocks for a device
// where there are few, and few partial sums where there are many.
std::int64_t rows_per_group(std::int64_t items, int groups) {
  return std::clamp<std::int64_t>(items / (1024 * groups), 4, 16);
}

// A group sums its weight gradient [width] in shared memory, or where rows are too wide for that in
// the block's row of `parts` [blocks, width], where its groups are added up at last.
constexpr std::int64_t kMostShared = 24000;

// With u = x / rms and g = d_y * weight (Zhang & Sennrich 2019):
// d_weight += sum of d_y * u, d_x += (g - u * mean(g * u)) / rms.
template <bool kWhole>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_backward_kernel(ConstHeadsView x, const float* inv_rms, const float* weight,
                             ConstHeadsView d_y, HeadsView d_x, float* parts, Groups groups,
                             std::int32_t items, bool in_shared) {
  float* const shared = dynamic_shared<float>();
  const std::int64_t width = x.width, step = groups.threads * kQuad;
  const int lane = static_cast<int>(threadIdx.x) % groups.threads,
            group = static_cast<int>(threadIdx.x) / groups.threads;
  float* const part = parts + std::int64_t{blockIdx.x} * width;
  float* const sums = in_shared ? shared + 2 * kWarp + group * width : part;
  for (std::int64_t i = lane * kQuad; i < width; i += step) {
    store_quad(sums + i, width - i, kWhole, Quad{});
  }

  const auto stride = static_cast<std::int32_t>(gridDim.x) * groups.count;
  int turn = 0;
  for (std::int32_t first = static_cast<std::int32_t>(blockIdx.x) * groups.count; first < items;
       first += stride, turn ^= 1) {
    const std::int32_t item = first + group;
    const bool present = item < items;
    const float* in = present ? row_of(x, item) : x.data;
    const float* dy = present ? row_of(d_y, item) : d_y.data;
    const float inv = present ? inv_rms[item] : 0.0f;
    float dot = 0;
    if (present) {
#pragma unroll 4
      for (std::int64_t i = lane * kQuad; i < width; i += step) {
        const std::int64_t left = width - i;
        const Quad a = load_quad(in + i, left, kWhole), d = load_quad(dy + i, left, kWhole),
                   w = load_quad(weight + i, left, kWhole);
#pragma unroll
        for (int c = 0; c < kQuad; ++c) dot = fmaf(d.at[c] * w.at[c], a.at[c], dot);
      }
    }
    dot = group_sum(dot, groups.threads, shared + turn * kWarp);
    if (!present) continue;
    const float mean = dot / static_cast<float>(width) * inv;
    float* dx = row_of(d_x, item);
#pragma unroll 2
    for (std::int64_t i = lane * kQuad; i < width; i += step) {
      const std::int64_t left = width - i;
      const Quad a = load_quad(in + i, left, kWhole), d = load_quad(dy + i, left, kWhole),
                 w = load_quad(weight + i, left, kWhole);
      Quad to = load_quad(dx + i, left, kWhole), sum = load_quad(sums + i, left, kWhole);
#pragma unroll
      for (int c = 0; c < kQuad; ++c) {
        const float unit = a.at[c] * inv;
        sum.at[c] = fmaf(d.at[c], unit, sum.at[c]);
        to.at[c] += inv * fmaf(d.at[c], w.at[c], -unit * mean);
      }
      store_quad(dx + i, left, kWhole, to);
      store_quad(sums + i, left, kWhole, sum);
    }
  }

  if (!in_shared) return;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float* own = shared + 2 * kWarp + i;
    float total = own[0];
    for (int g = 1; g < groups.count; ++g) total += own[g * width];
    part[i] = total;
  }
}

template <class T>
void launch_rms_norm(const Context& context, const ConstHeadsView& x, const float* weight,
                     float epsilon, T* y, std::int64_t y_stride, float* inv_rms) {
  const Groups groups = groups_for(x.width);
  const std::int64_t items = x.rows * x.heads;
  const bool whole = whole_quads({x.width, x.row_stride, y_stride}, {x.data, y, weight});
  launch(context.stream, whole ? rms_norm_kernel<T, true> : rms_norm_kernel<T, false>,
         dim3(static_cast<unsigned>(ceil_div(items, groups.count))), groups.threads * groups.count,
         kWarp * sizeof(float), x, weight, epsilon, y, y_stride, inv_rms, groups, items);
}

}  // namespace

void rms_norm(const Context& context, const ConstHeadsView& x, const float* weight, float epsilon,
              const HeadsView& y, float* inv_rms) {
  launch_rms_norm(context, x, weight, epsilon, y.data, y.row_stride, inv_rms);
}

Operand rms_norm_operand(const Context& context, const float* x, std::int64_t rows,
                         std::int64_t width, const float* weight, float epsilon, float* out,
                         float* inv_rms) {
  const ConstHeadsView view{x, rows, 1, width, width};
  if (context.compute == ComputeType::f32) {
    launch_rms_norm(context, view, weight, epsilon, out, width, inv_rms);
    return as_operand(out, width);
  }
  const Rounded y = rounded_rows(out, width);
  launch_rms_norm(context, view, weight, epsilon, y.data, y.stride, inv_rms);
  return y.operand();
}

void rms_norm_backward(const Context& context, const ConstHeadsView& x, const float* inv_rms,
                       const float* weight, const ConstHeadsView& d_y, const HeadsView& d_x,
                       float* d_weight) {
  const std::int64_t items = x.rows * x.heads, width = x.width;
  if (items == 0) return;
  const Groups groups = groups_for(width);
  const std::int64_t blocks = ceil_div(items, groups.count * rows_per_group(items, groups.count));
  const bool whole = whole_quads({width, x.row_stride, d_y.row_stride, d_x.row_stride},
                                 {x.data, d_y.data, d_x.data, weight});
  const bool in_shared = width <= kMostShared;
  const std::int64_t shared = 2 * kWarp + (in_shared ? groups.count * width : 0);
  const Temporary<float> parts(context, blocks * width);
  launch(context.stream, whole ? rms_norm_backward_kernel<true> : rms_norm_backward_kernel<false>,
         dim3(static_cast<unsigned>(blocks)), groups.threads * groups.count,
         static_cast<std::size_t>(shared) * sizeof(float), x, inv_rms, weight, d_y, d_x,
         parts.data(), groups, items, in_shared);
  column_sums(context, parts.data(), blocks, width, d_weight);
}

}  // namespace hindsearch::cuda
