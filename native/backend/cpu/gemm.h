// Matrix products through packed panels and the micro-kernels of one instruction set.
//
// Every element of a product is a sum over blocks of k (GemmKernels::k_block) in ascending order,
// each block one chain in ascending order, added to the base first (zero, bias, or what C held).
// How rows, columns and threads are divided never changes that.
#pragma once

#include <cstdint>
#include <functional>

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/memory.h"

namespace hindsearch::cpu {

// Columns [first, first + columns) of a packed right operand.
struct PanelView {
  const char* data;
  std::int64_t k;
  std::int64_t total_padded;  // columns of the whole operand, padded
  std::int64_t first;         // a multiple of the panel's columns
  std::int64_t columns;
};

// A packed right operand B[k, columns]: for each block of k, panels of tile_vectors * width
// columns.
class Panels {
 public:
  Panels(const GemmKernels& kernels, std::int64_t k, std::int64_t columns);

  std::int64_t k() const { return k_; }
  std::int64_t columns() const { return columns_; }
  std::size_t bytes() const { return memory_.size(); }
  // From a matrix given as [columns, k], on all threads.
  void fill_transposed(const float* from);
  PanelView view() const { return view(0, columns_); }
  PanelView view(std::int64_t first, std::int64_t columns) const;

 private:
  const GemmKernels& kernels_;
  std::int64_t k_, columns_;
  AlignedBytes memory_;
};

// Packs B given as [k, columns], rows `stride` apart, on all threads into that slot of the
// calling thread; valid until the slot is used again.
PanelView pack_scratch(const GemmKernels& kernels, Slot slot, const float* from,
                       std::int64_t stride, std::int64_t k, std::int64_t columns);
// Bytes of a packed right operand.
std::size_t packed_bytes(const GemmKernels& kernels, std::int64_t k, std::int64_t columns);

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
