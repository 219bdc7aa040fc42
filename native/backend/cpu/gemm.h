// Matrix products through packed panels and the micro-kernels of one instruction set.
//
// Every element of a product is a sum over blocks of k (GemmKernels::k_block) in ascending order,
// each block one chain in ascending order, added to the base first (zero, bias, or what C held).
// How rows, columns and threads are divided never changes that.
#pragma once

#include <cstdint>

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/panels.h"

namespace hindsearch::cpu {

// A[rows, k], either row-major or given as [k, rows]; `stride` is the distance of two lines of
// memory.
struct LeftOperand {
  const float* data;
  std::int64_t stride;
  bool transposed;
};

// C[rows, columns] = base + A B, where the base is the bias (or null), or with `accumulate` what C
// holds. On all threads.
void multiply(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
              const PanelView& b, const float* bias, float* c, std::int64_t c_stride,
              bool accumulate);
// The same on the calling thread alone.
void multiply_serial(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
                     const PanelView& b, const float* bias, float* c, std::int64_t c_stride,
                     bool accumulate);

}  // namespace hindsearch::cpu
