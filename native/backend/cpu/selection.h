// Where a filter of Sampling cuts a row. Both searches drop values from the smallest up while the
// weight of what is dropped stays within a bound, and are exact: a bracket guessed from a sample of
// the row saves work, a wrong guess costs time and nothing else.
#pragma once

#include <cstdint>

#include "native/backend/cpu/kernels.h"

namespace hindsearch::cpu {

// The k-th largest of n logits, 1 <= k <= n. `work` holds n + kPickSlack floats.
float kth_largest(const RowKernels& kernels, const float* logits, std::int64_t n, std::int64_t k,
                  float* work);

// All above `value` stay, and of those equal to it the first `equals`; `dropped` of them go.
struct Cut {
  float value;
  std::int64_t equals;
  std::int64_t dropped;
};

// Drops from the smallest up while the dropped mass is at most (1 - top_p) * total, but never the
// largest, which is 1. `work` holds n + kPickSlack floats.
Cut cut_top_p(const RowKernels& kernels, const float* masses, std::int64_t n, double total,
              double top_p, float* work);

}  // namespace hindsearch::cpu
