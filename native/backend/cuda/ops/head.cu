// The vocabulary head: logits exist only as a chunk of rows.
#include <algorithm>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/softmax.h"
#include "native/backend/cuda/runtime/cublas.h"

namespace hindsearch::cuda {
namespace {

// One block a row; `logits` has rows of `stride`, which is in whole fours.
template <bool kEntropy>
__global__ void __launch_bounds__(kRowThreads)
    log_probs_kernel(const float* logits, std::int64_t stride, std::int64_t vocabulary, float scale,
                     const Token* targets, float* log_probs, float* log_sums, float* entropies) {
  auto* const segments = dynamic_shared<Segment>();
  const float* const row = logits + std::int64_t{blockIdx.x} * stride;
  const std::int64_t r = blockIdx.x;
  reduce_segments<kEntropy>(row, vocabulary, vocabulary % 4 == 0, scale, segments);
  __syncthreads();
  if (warp_id() != 0) return;
  const SoftmaxTotal total = merge_segments<kEntropy>(segments, segment_count(vocabulary), scale);
  if (lane_id() != 0) return;
  log_probs[r] = total.log_prob(row[targets[r]]);
  log_sums[r] = static_cast<float>(total.log_sum());
  if (kEntropy) entropies[r] = static_cast<float>(total.entropy());
}

__device__ __forceinline__ void store_four(float* to, const float (&x)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
}
__device__ __forceinline__ void store_four(bf16* to, const float (&x)[4]) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]));
}

// Each row of logits becomes its gradient, as T and from the row's beginning. A row of bf16 takes
// the first half of its floats' place: what a block writes in one turn lies where all its threads
// have read, because a turn's reads end before its writes begin.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    gradient_kernel(float* logits, std::int64_t stride, std::int64_t vocabulary, float scale,
                    const Token* targets, const float* log_sums, const float* g) {
  constexpr int kFours = 4;  // of a thread in one turn
  float* const row = logits + std::int64_t{blockIdx.x} * stride;
  T* const out = reinterpret_cast<T*>(row);
  const float log_sum = log_sums[blockIdx.x], factor = g[blockIdx.x] * scale;
  const std::int64_t target = targets[blockIdx.x];
  for (std::int64_t start = 0; start < vocabulary; start += kFours * 4 * kRowThreads) {
    float4 fours[kFours];
    const std::int64_t first = start + threadIdx.x * 4;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const std::int64_t at = first + i * 4 * kRowThreads;
      if (at < vocabulary) fours[i] = *reinterpret_cast<const float4*>(row + at);
    }
    if (sizeof(T) < sizeof(float)) __syncthreads();
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const std::int64_t at = first + i * 4 * kRowThreads;
      if (at >= vocabulary) break;
      float x[4] = {fours[i].x, fours[i].y, fours[i].z, fours[i].w};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float p = exponential(fmaf(x[c], scale, -log_sum));
        x[c] = fmaf(-factor, p, at + c == target ? factor : 0.0f);
      }
      store_four(out + at, x);
    }
  }
}

// More rows make no product faster, and logits take memory: 600 KB a row for 150,000 tokens.
constexpr std::int64_t kMostRows = 4096;
constexpr std::int64_t kLeastRows = 64;
constexpr std::int64_t kMostBytes = std::int64_t{512} << 20;
constexpr std::int64_t kTileRows = 128;  // that a product computes together

// The logits of one chunk of rows after the other.
class Chunks {
 public:
  Chunks(const Context& context, const Operand& hidden, std::int64_t rows, const Matrix& head,
         const Token* host_targets)
      : context_(context),
        hidden_(hidden),
        head_(head),
        rows_(rows),
        stride_(ceil_div(head.n, 4) * 4),
        most_(std::min(rows, rows_of(stride_))),
        logits_(context, most_ * stride_),
        targets_(context, rows) {
    upload_bytes(context, host_targets, targets_.data(),
                 static_cast<std::size_t>(rows) * sizeof(Token));
  }

  // Calls body(first row, rows) with the chunk's logits computed.
  template <class Body>
  void each(Body&& body) {
    for (std::int64_t first = 0; first < rows_; first += most_) {
      const std::int64_t count = std::min(most_, rows_ - first);
      const Operand rows{hidden_.data + first * hidden_.stride, hidden_.stride, hidden_.rounded};
      factor_ = factor(context_, rows, count, head_.k, Slot::left);
      context_.cublas.multiply(context_.compute, count, head_.n, head_.k, factor_,
                               {head_.data, head_.k, true}, logits(), stride_, false);
      body(first, count);
    }
  }

  float* logits() const { return logits_.data(); }
  std::int64_t stride() const { return stride_; }
  const Token* targets() const { return targets_.data(); }
  const Factor& hidden_factor() const { return factor_; }

 private:
  static std::int64_t rows_of(std::int64_t stride) {
    const std::int64_t fitting =
        std::min(kMostRows, kMostBytes / (stride * static_cast<std::int64_t>(sizeof(float))));
    return std::max(kLeastRows, fitting < kTileRows ? fitting : fitting / kTileRows * kTileRows);
  }

  const Context& context_;
  Operand hidden_;
  const Matrix& head_;
  std::int64_t rows_;
  std::int64_t stride_;
  std::int64_t most_;
  Temporary<float> logits_;
  Temporary<Token> targets_;
  Factor factor_{};
};

dim3 one_block_each(std::int64_t rows) { return dim3(static_cast<unsigned>(rows)); }

}  // namespace

void head_log_probs(const Context& context, const Operand& hidden, std::int64_t rows,
                    const Matrix& head, float temperature, const Token* host_targets,
                    float* log_probs, float* log_sums, float* entropies) {
  if (rows == 0) return;
  const auto shared = static_cast<std::size_t>(segment_count(head.n)) * sizeof(Segment);
  Chunks chunks(context, hidden, rows, head, host_targets);
  chunks.each([&](std::int64_t first, std::int64_t count) {
    launch(context.stream, entropies ? log_probs_kernel<true> : log_probs_kernel<false>,
           one_block_each(count), kRowThreads, shared, chunks.logits(), chunks.stride(), head.n,
           1 / temperature, chunks.targets() + first, log_probs + first, log_sums + first,
           entropies ? entropies + first : nullptr);
  });
}

void head_backward(const Context& context, const Operand& hidden, std::int64_t rows,
                   const Matrix& head, float temperature, const Token* host_targets,
                   const float* log_sums, const float* g, float* d_hidden, float* d_weight) {
  if (rows == 0) return;
  const bool narrow = context.compute == ComputeType::bf16;
  Chunks chunks(context, hidden, rows, head, host_targets);
  // A row of bf16 is as far from the next as the row of floats that it was made of.
  const std::int64_t stride = narrow ? 2 * chunks.stride() : chunks.stride();
  const Factor d_logits{chunks.logits(), stride}, transposed{chunks.logits(), stride, true},
      weight{head.data, head.k};
  chunks.each([&](std::int64_t first, std::int64_t count) {
    launch(context.stream, narrow ? gradient_kernel<bf16> : gradient_kernel<float>,
           one_block_each(count), kRowThreads, 0, chunks.logits(), chunks.stride(), head.n,
           1 / temperature, chunks.targets() + first, log_sums + first, g + first);
    context.cublas.multiply(context.compute, count, head.k, head.n, d_logits, weight,
                            d_hidden + first * head.k, head.k, false);
    context.cublas.multiply(context.compute, head.n, head.k, count, transposed,
                            chunks.hidden_factor(), d_weight, head.k, true);
  });
}

}  // namespace hindsearch::cuda
