#include <algorithm>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {

void embed(const Token* tokens, std::int64_t rows, const float* table, std::int64_t width,
           float* out) {
  parallel_ranges(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::copy_n(table + tokens[r] * width, width, out + r * width);
    }
  });
}

// Rows of one token meet in one row of the table, so threads share columns, not rows.
void embed_backward(const RowKernels& kernels, const Token* tokens, std::int64_t rows,
                    const float* d_out, std::int64_t width, float* d_table) {
  constexpr std::int64_t kColumns = 64;
  parallel_ranges((width + kColumns - 1) / kColumns, rows * kColumns,
                  [&](std::int64_t begin, std::int64_t end) {
                    const std::int64_t first = begin * kColumns;
                    const std::int64_t count = std::min(width, end * kColumns) - first;
                    for (std::int64_t r = 0; r < rows; ++r) {
                      kernels.add(d_out + r * width + first, d_table + tokens[r] * width + first,
                                  count);
                    }
                  });
}

}  // namespace hindsearch::cpu
