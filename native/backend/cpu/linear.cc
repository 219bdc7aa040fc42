#include <algorithm>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {
namespace {

// Packed weights of the input's gradient live only during the call; larger ones are packed in
// parts.
constexpr std::size_t kScratchBytes = std::size_t{32} << 20;

// The most `quantum`-sized steps of `total` whose share of `bytes` fits the scratch, at least one.
std::int64_t fitting(std::int64_t total, std::int64_t quantum, std::size_t bytes) {
  const auto per_quantum =
      static_cast<std::int64_t>(bytes / static_cast<std::size_t>(total) + 1) * quantum;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kScratchBytes) / per_quantum) *
         quantum;
}

}  // namespace

void linear_backward_input(const GemmKernels& kernels, const Numbers& d_y, std::int64_t rows,
                           const float* weight, std::int64_t n, std::int64_t k, float* d_x) {
  if (rows == 0) return;
  const std::int64_t panel = std::int64_t{kernels.tile_vectors} * kernels.width;
  const std::int64_t chunk = fitting(k, panel, packed_bytes(kernels, n, k));
  for (std::int64_t first = 0; first < k; first += chunk) {
    const std::int64_t columns = std::min(chunk, k - first);
    const PanelView w = pack_scratch(kernels, Slot::right, {weight + first, k}, n, columns);
    float* const to = d_x + first;
    multiply(kernels, rows, {d_y, false}, w, {}, to, k);
  }
}

void linear_backward_weight(const Kernels& kernels, ComputeType compute, const Numbers& d_y,
                            const Numbers& x, std::int64_t rows, std::int64_t n, std::int64_t k,
                            float* d_weight, float* d_bias) {
  if (rows == 0) return;
  const GemmKernels& gemm = kernels.gemm(compute);
  // One block of the sum over rows after the other, so that both operands are read as they lie.
  for (std::int64_t first = 0; first < rows; first += gemm.k_block) {
    const std::int64_t count = std::min(gemm.k_block, rows - first);
    const PanelView right = pack_scratch(gemm, Slot::right, x.from(gemm, first), count, k);
    multiply(gemm, n, {d_y.from(gemm, first), true}, right, {d_weight, k}, d_weight, k);
  }
  if (!d_bias) return;
  const auto* gradient = static_cast<const float*>(d_y.data);
  constexpr std::int64_t kColumns = 64;
  parallel_ranges(
      (n + kColumns - 1) / kColumns, rows * kColumns, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = begin * kColumns, last = std::min(n, end * kColumns);
        for (std::int64_t r = 0; r < rows; r += gemm.k_block) {
          kernels.rows->add_rows(gradient + r * d_y.stride + first, d_y.stride,
                                 std::min(gemm.k_block, rows - r), last - first, d_bias + first);
        }
      });
}

}  // namespace hindsearch::cpu
