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

// A[rows, k], either row-major or given as [k, rows].
struct LeftOperand {
  Numbers numbers;
  bool transposed;
};

// What a product is added to: nothing, one row for all (stride 0), or rows, C itself perhaps.
struct AddedTo {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

// C[rows, columns] = base + A B. On all threads. `next` is what will be multiplied after it: its
// first panels are fetched while the last ones of B are computed.
void multiply(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
              const PanelView& b, const AddedTo& base, float* c, std::int64_t c_stride,
              const PanelView& next = {});
// The same on the calling thread alone.
void multiply_serial(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
                     const PanelView& b, const AddedTo& base, float* c, std::int64_t c_stride,
                     const PanelView& next = {});

}  // namespace hindsearch::cpu
