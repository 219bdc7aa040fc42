#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/quad.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;

// A cast moves eight numbers a thread: 16 bytes of bf16.
constexpr int kOctet = 8;

dim3 blocks_for(std::int64_t threads) {
  return dim3(static_cast<unsigned>(ceil_div(threads, kThreads)));
}

__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kThreads)
    add_kernel(const float* x, float* y, std::int64_t n, bool aligned) {
  const std::int64_t i = thread_index() * kQuad, left = n - i;
  if (left <= 0) return;
  const bool whole = aligned && left >= kQuad;
  const Quad from = load_quad(x + i, left, whole);
  Quad to = load_quad(y + i, left, whole);
#pragma unroll
  for (int c = 0; c < kQuad; ++c) to.at[c] += from.at[c];
  store_quad(y + i, left, whole, to);
}

__global__ void __launch_bounds__(kThreads)
    to_bf16_kernel(const float* x, bf16* y, std::int64_t n, bool aligned) {
  const std::int64_t i = thread_index() * kOctet;
  if (aligned && i + kOctet <= n) {
    const float4* from = reinterpret_cast<const float4*>(x + i);
    const float4 a = from[0], b = from[1];
    *reinterpret_cast<uint4*>(y + i) = make_uint4(pack_bf16(a.x, a.y), pack_bf16(a.z, a.w),
                                                  pack_bf16(b.x, b.y), pack_bf16(b.z, b.w));
    return;
  }
  for (std::int64_t j = i; j < i + kOctet && j < n; ++j) y[j] = to_bf16(x[j]);
}

// Block b works on piece b % pieces of row b / pieces.
__global__ void __launch_bounds__(kThreads)
    broadcast_kernel(const float* bias, float* y, std::int64_t width, unsigned pieces, bool whole) {
  const std::int64_t i = (std::int64_t{blockIdx.x % pieces} * kThreads + threadIdx.x) * kQuad;
  const std::int64_t left = width - i;
  if (left <= 0) return;
  store_quad(y + std::int64_t{blockIdx.x / pieces} * width + i, left, whole,
             load_quad(bias + i, left, whole));
}

// Columns and rows that a block sums side by side.
constexpr int kSumColumns = kWarp;
constexpr int kSumRows = 16;
constexpr int kSumThreads = kSumColumns * kSumRows;

// Sums of kStageRows rows each are made first where there are more than kLastRows.
constexpr std::int64_t kStageRows = 256;
constexpr std::int64_t kLastRows = 512;

// Block b sums tile b % tiles of the columns over part b / tiles of the rows, rows_each of them,
// into that row of out, or adds them to it.
__global__ void __launch_bounds__(kSumThreads)
    column_sums_kernel(const float* x, std::int64_t rows, std::int64_t width, unsigned tiles,
                       std::int64_t rows_each, float* out, bool accumulate) {
  float* sums = dynamic_shared<float>();
  const int lane = static_cast<int>(threadIdx.x) % kSumColumns,
            slice = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t column = std::int64_t{blockIdx.x % tiles} * kSumColumns + lane,
                     part = blockIdx.x / tiles, first = part * rows_each,
                     last = first + rows_each < rows ? first + rows_each : rows;
  float total = 0;
  if (column < width) {
#pragma unroll 8
    for (std::int64_t r = first + slice; r < last; r += kSumRows) total += x[r * width + column];
  }
  sums[threadIdx.x] = total;
  __syncthreads();
  if (slice != 0 || column >= width) return;
  for (int s = 1; s < kSumRows; ++s) total += sums[s * kSumColumns + lane];
  float& to = out[part * width + column];
  to = accumulate ? to + total : total;
}

void sum_rows(const Context& context, const float* x, std::int64_t rows, std::int64_t width,
              std::int64_t rows_each, float* out, bool accumulate) {
  const std::int64_t tiles = ceil_div(width, kSumColumns), parts = ceil_div(rows, rows_each);
  launch(context.stream, column_sums_kernel, dim3(static_cast<unsigned>(tiles * parts)),
         kSumThreads, kSumThreads * sizeof(float), x, rows, width, tiles, rows_each, out,
         accumulate);
}

}  // namespace

void zero(const Context& context, float* x, std::int64_t n) {
  if (n == 0) return;
  check(cudaMemsetAsync(x, 0, static_cast<std::size_t>(n) * sizeof(float), context.stream),
        "setting memory to zero");
}

void add(const Context& context, const float* x, float* y, std::int64_t n) {
  launch(context.stream, add_kernel, blocks_for(ceil_div(n, kQuad)), kThreads, 0, x, y, n,
         whole_quads({}, {x, y}));
}

void to_bf16(const Context& context, const float* x, bf16* y, std::int64_t n) {
  launch(context.stream, to_bf16_kernel, blocks_for(ceil_div(n, kOctet)), kThreads, 0, x, y, n,
         whole_quads({}, {x, y}));
}

void broadcast(const Context& context, const float* bias, float* y, std::int64_t rows,
               std::int64_t width) {
  const std::int64_t pieces = ceil_div(width, kThreads * kQuad);
  launch(context.stream, broadcast_kernel, dim3(static_cast<unsigned>(rows * pieces)), kThreads, 0,
         bias, y, width, pieces, whole_quads({width}, {bias, y}));
}

void column_sums(const Context& context, const float* x, std::int64_t rows, std::int64_t width,
                 float* out) {
  if (rows == 0) return;
  if (rows <= kLastRows) {
    sum_rows(context, x, rows, width, kLastRows, out, true);
    return;
  }
  const std::int64_t parts = ceil_div(rows, kStageRows);
  const Temporary<float> sums(context, parts * width);
  sum_rows(context, x, rows, width, kStageRows, sums.data(), false);
  column_sums(context, sums.data(), parts, width, out);
}

}  // namespace hindsearch::cuda
