#include <cmath>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/quad.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;

// Numbers that a block sums, and the threads that add up the blocks' sums.
constexpr std::int64_t kBlock = 16384;
constexpr int kLastThreads = 1024;

// The sum over the block's threads, a power of two, in thread 0; `sums` holds one number a thread.
__device__ double block_sum(double x, double* sums) {
  sums[threadIdx.x] = x;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

__global__ void __launch_bounds__(kThreads)
    square_kernel(const float* x, std::int64_t n, double* parts, bool aligned) {
  const std::int64_t first = blockIdx.x * kBlock, end = first + kBlock < n ? first + kBlock : n;
  double total = 0;
#pragma unroll 4
  for (std::int64_t i = first + threadIdx.x * kQuad; i < end; i += kThreads * kQuad) {
    const Quad quad = load_quad(x + i, end - i, aligned && end - i >= kQuad);
#pragma unroll
    for (int c = 0; c < kQuad; ++c) {
      const double value = quad.at[c];
      total += value * value;
    }
  }
  total = block_sum(total, dynamic_shared<double>());
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kLastThreads)
    total_kernel(const double* parts, std::int64_t n, double* out) {
  double total = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += kLastThreads) total += parts[i];
  total = block_sum(total, dynamic_shared<double>());
  if (threadIdx.x == 0) *out = total;
}

struct Update {
  float beta1, beta2, rest1, rest2;
  float scale;  // of the gradients
  float keep;   // 1 - learning rate * weight decay
  float rate;   // with the first moment's bias correction
  float root;   // the second's, of its square root
  float epsilon;
};

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(float* weights, const float* gradients, float* first, float* second,
                 std::int64_t n, Update update, bool aligned) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kQuad, left = n - i;
  if (left <= 0) return;
  const bool whole = aligned && left >= kQuad;
  const Quad gradient = load_quad(gradients + i, left, whole);
  Quad w = load_quad(weights + i, left, whole), m = load_quad(first + i, left, whole),
       v = load_quad(second + i, left, whole);
#pragma unroll
  for (int c = 0; c < kQuad; ++c) {
    const float g = gradient.at[c] * update.scale;
    m.at[c] = fmaf(update.beta1, m.at[c], update.rest1 * g);
    v.at[c] = fmaf(update.beta2, v.at[c], update.rest2 * g * g);
    w.at[c] = w.at[c] * update.keep -
              update.rate * m.at[c] / (sqrtf(v.at[c]) * update.root + update.epsilon);
  }
  store_quad(weights + i, left, whole, w);
  store_quad(first + i, left, whole, m);
  store_quad(second + i, left, whole, v);
}

}  // namespace

double sum_of_squares(const Context& context, const float* x, std::int64_t n) {
  if (n == 0) return 0;
  const std::int64_t blocks = ceil_div(n, kBlock);
  const Temporary<double> parts(context, blocks);
  double* const device_total = context.workspace.take<double>(Slot::results, 1);
  launch(context.stream, square_kernel, dim3(static_cast<unsigned>(blocks)), kThreads,
         kThreads * sizeof(double), x, n, parts.data(), whole_quads({}, {x}));
  launch(context.stream, total_kernel, dim3(1), kLastThreads, kLastThreads * sizeof(double),
         parts.data(), blocks, device_total);
  double total;
  download_bytes(context, device_total, &total, sizeof total);
  return total;
}

void adamw(const Context& context, float* weights, const float* gradients, float* first_moments,
           float* second_moments, std::int64_t n, const AdamWStep& step) {
  const double t = static_cast<double>(step.step);
  const Update update{
      .beta1 = step.beta1,
      .beta2 = step.beta2,
      .rest1 = 1 - step.beta1,
      .rest2 = 1 - step.beta2,
      .scale = step.gradient_scale,
      .keep = 1 - step.learning_rate * step.weight_decay,
      .rate = static_cast<float>(step.learning_rate / (1 - std::pow(double{step.beta1}, t))),
      .root = static_cast<float>(1 / std::sqrt(1 - std::pow(double{step.beta2}, t))),
      .epsilon = step.epsilon};
  launch(context.stream, adamw_kernel,
         dim3(static_cast<unsigned>(ceil_div(ceil_div(n, kQuad), kThreads))), kThreads, 0, weights,
         gradients, first_moments, second_moments, n, update,
         whole_quads({}, {weights, gradients, first_moments, second_moments}));
}

}  // namespace hindsearch::cuda
