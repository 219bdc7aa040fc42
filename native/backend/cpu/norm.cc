#include <algorithm>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/rounded_rows.h"

namespace hindsearch::cpu {

Operand rms_norm_operand(const Kernels& kernels, ComputeType compute, const float* x,
                         std::int64_t rows, std::int64_t width, const float* weight, float epsilon,
                         float* out, float* inv_rms) {
  const GemmKernels& gemm = kernels.gemm(compute);
  const auto norm = kernels.rows->rms_norm;
  const RoundedRows rounded(gemm, out, width);
  const bool rounds = RoundedRows::fit(gemm, width);
  parallel_ranges(rows, 2 * width, [&](std::int64_t begin, std::int64_t end) {
    if (!rounds) {
      norm({x, rows, 1, width, width}, weight, epsilon, {out, rows, 1, width, width}, inv_rms,
           begin, end);
      return;
    }
    float* const row = scratch<float>(Slot::rows, width);
    for (std::int64_t r = begin; r < end; ++r) {
      norm({x + r * width, 1, 1, width, width}, weight, epsilon, {row, 1, 1, width, width},
           inv_rms ? inv_rms + r : nullptr, 0, 1);
      rounded.store(r, row);
    }
  });
  return rounds ? rounded.operand() : as_operand(out, width);
}

void rms_norm_backward(const RowKernels& kernels, const ConstHeadsView& x, const float* inv_rms,
                       const float* weight, const ConstHeadsView& d_y, const HeadsView& d_x,
                       float* d_weight) {
  // The weight's gradient is summed in blocks of rows that do not depend on the number of threads.
  constexpr std::int64_t kRows = 128;
  const std::int64_t blocks = (x.rows + kRows - 1) / kRows;
  float* parts = scratch<float>(Slot::rows, blocks * x.width);
  std::fill(parts, parts + blocks * x.width, 0.0f);
  parallel_ranges(blocks, kRows * x.heads * x.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      kernels.rms_norm_backward(x, inv_rms, weight, d_y, d_x, parts + block * x.width,
                                block * kRows, std::min(x.rows, (block + 1) * kRows));
    }
  });
  kernels.add_rows(parts, x.width, blocks, x.width, d_weight);
}

}  // namespace hindsearch::cpu
