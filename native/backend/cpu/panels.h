// Packed right operands: for each block of k, panels of tile_vectors * width columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/memory.h"

namespace hindsearch::cpu {

// Numbers that an operand is made of, as they lie in memory: floats, or `rounded` as
// GemmKernels::convert_rows writes them.
struct Numbers {
  const void* data;
  std::int64_t stride;  // numbers from one line to the next
  bool rounded = false;

  const char* at(const GemmKernels& kernels, std::int64_t line, std::int64_t column) const {
    const std::int64_t bytes = rounded ? kernels.left_bytes : std::int64_t{sizeof(float)};
    return static_cast<const char*>(data) + (line * stride + column) * bytes;
  }
  // From that line on.
  Numbers from(const GemmKernels& kernels, std::int64_t line) const {
    return {at(kernels, line, 0), stride, rounded};
  }
};
inline Numbers numbers_of(const GemmKernels& kernels, const Operand& x) {
  if (!x.rounded) return {x.data, x.stride, false};
  return {x.data, x.stride * std::int64_t{sizeof(float)} / kernels.left_bytes, true};
}

// Columns [first, first + columns) of a packed right operand.
struct PanelView {
  const char* data;
  std::int64_t k;
  std::int64_t total_padded;  // columns of the whole operand, padded
  std::int64_t first;         // a multiple of the panel's columns
  std::int64_t columns;
};

// A packed right operand B[k, columns] with an owner.
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

// Packs B given as [k, columns] on all threads into that slot of the calling thread; valid until
// the slot is used again.
PanelView pack_scratch(const GemmKernels& kernels, Slot slot, const Numbers& from, std::int64_t k,
                       std::int64_t columns);
// Bytes of a packed right operand.
std::size_t packed_bytes(const GemmKernels& kernels, std::int64_t k, std::int64_t columns);

// --- Geometry. ---

inline std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

inline std::int64_t panel_columns(const GemmKernels& kernels) {
  return std::int64_t{kernels.tile_vectors} * kernels.width;
}

// Where panel `first` of the k block at `k0` lies, in bytes. Blocks before it are full, hence even.
inline std::int64_t panel_offset(const GemmKernels& kernels, std::int64_t total_padded,
                                 std::int64_t k0, std::int64_t padded_block, std::int64_t first) {
  return (k0 * total_padded + first * padded_block) * kernels.right_bytes;
}

// Runs body(k0, block, padded block) for each block of k.
template <class Body>
void for_k_blocks(const GemmKernels& kernels, std::int64_t k, Body&& body) {
  for (std::int64_t k0 = 0; k0 < k; k0 += kernels.k_block) {
    const std::int64_t block = std::min(kernels.k_block, k - k0);
    body(k0, block, round_up(block, kernels.unit));
  }
}

}  // namespace hindsearch::cpu
