#include <algorithm>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {

void gather(const std::int32_t* rows, std::int64_t count, const float* x, std::int64_t width,
            float* out) {
  parallel_ranges(count, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::copy_n(x + rows[r] * width, width, out + r * width);
    }
  });
}

// A row may occur several times, as a token does, so threads share columns, not rows.
void scatter_add(const RowKernels& kernels, const std::int32_t* rows, std::int64_t count,
                 const float* d_out, std::int64_t width, float* d_x) {
  constexpr std::int64_t kColumns = 64;
  parallel_ranges((width + kColumns - 1) / kColumns, count * kColumns,
                  [&](std::int64_t begin, std::int64_t end) {
                    const std::int64_t first = begin * kColumns;
                    const std::int64_t columns = std::min(width, end * kColumns) - first;
                    for (std::int64_t r = 0; r < count; ++r) {
                      kernels.add(d_out + r * width + first, d_x + rows[r] * width + first,
                                  columns);
                    }
                  });
}

}  // namespace hindsearch::cpu
