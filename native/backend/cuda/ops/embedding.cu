#include <algorithm>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/quad.h"

namespace hindsearch::cuda {
namespace {

constexpr int kMostThreads = 256;

__global__ void __launch_bounds__(kMostThreads)
    gather_kernel(const Token* tokens, const float* table, std::int64_t width, float* out,
                  bool whole) {
  const float* from = table + std::int64_t{tokens[blockIdx.x]} * width;
  float* to = out + std::int64_t{blockIdx.x} * width;
  for (std::int64_t i = std::int64_t{threadIdx.x} * kQuad; i < width; i += blockDim.x * kQuad) {
    store_quad(to + i, width - i, whole, load_quad(from + i, width - i, whole));
  }
}

// Block b adds to piece b % pieces of the row of token b / pieces.
template <bool kWhole>
__global__ void __launch_bounds__(kMostThreads)
    scatter_kernel(TokenRuns runs, const float* __restrict__ d_out, std::int64_t width,
                   unsigned pieces, float* __restrict__ d_table) {
  const std::int64_t i = (std::int64_t{blockIdx.x % pieces} * blockDim.x + threadIdx.x) * kQuad;
  const std::int64_t left = width - i;
  if (left <= 0) return;
  const std::int32_t run = static_cast<std::int32_t>(blockIdx.x / pieces);
  const std::int32_t end = runs.begin[run + 1];
  float* to = d_table + std::int64_t{runs.tokens[run]} * width + i;
  Quad sum = load_quad(to, left, kWhole);
  // Frequent tokens have long runs: several rows are on their way at a time.
#pragma unroll 8
  for (std::int32_t at = runs.begin[run]; at < end; ++at) {
    const Quad row = load_quad(d_out + std::int64_t{runs.rows[at]} * width + i, left, kWhole);
#pragma unroll
    for (int c = 0; c < kQuad; ++c) sum.at[c] += row.at[c];
  }
  store_quad(to, left, kWhole, sum);
}

int threads_for(std::int64_t width) {
  return static_cast<int>(
      std::min<std::int64_t>(kMostThreads, ceil_div(width, kQuad * kWarp) * kWarp));
}

}  // namespace

void gather(const Context& context, const Token* rows, std::int64_t count, const float* table,
            std::int64_t width, float* out) {
  launch(context.stream, gather_kernel, dim3(static_cast<unsigned>(count)), threads_for(width), 0,
         rows, table, width, out, whole_quads({width}, {table, out}));
}

void scatter_add(const Context& context, const TokenRuns& runs, const float* d_out,
                 std::int64_t width, float* d_table) {
  const int threads = threads_for(width);
  const std::int64_t pieces = ceil_div(width, threads * kQuad);
  launch(context.stream,
         whole_quads({width}, {d_out, d_table}) ? scatter_kernel<true> : scatter_kernel<false>,
         dim3(static_cast<unsigned>(runs.count * pieces)), threads, 0, runs, d_out, width, pieces,
         d_table);
}

}  // namespace hindsearch::cuda
