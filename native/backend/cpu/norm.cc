#include <algorithm>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {

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
