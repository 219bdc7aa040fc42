#include <algorithm>
#include <cmath>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {
namespace {

constexpr std::int64_t kBlock = 4096;

}  // namespace

double sum_of_squares(const RowKernels& kernels, const float* x, std::int64_t n) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  double* sums = scratch<double>(Slot::rows, blocks);
  parallel_ranges(blocks, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      sums[block] =
          kernels.sum_of_squares(x + block * kBlock, std::min(kBlock, n - block * kBlock));
    }
  });
  double total = 0;
  for (std::int64_t block = 0; block < blocks; ++block) total += sums[block];
  return total;
}

void adamw(const RowKernels& kernels, float* weights, const float* gradients, float* first_moments,
           float* second_moments, std::int64_t n, const AdamWStep& step) {
  const double t = static_cast<double>(step.step);
  const auto rate = static_cast<float>(step.learning_rate / (1 - std::pow(double{step.beta1}, t)));
  const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(double{step.beta2}, t)));
  // Whole blocks, so that a parameter's lane, and with it its rounding, is the same on any thread.
  parallel_ranges((n + kBlock - 1) / kBlock, kBlock * 4, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kBlock, count = std::min(n, end * kBlock) - first;
    kernels.adamw(weights + first, gradients + first, first_moments + first, second_moments + first,
                  count, step, rate, root);
  });
}

}  // namespace hindsearch::cpu
