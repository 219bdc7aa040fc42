// Rows that are for products alone: computed as floats, which stay in the cache, and rounded as
// they are stored.
#pragma once

#include "native/backend/cpu/panels.h"

namespace hindsearch::cpu {

// Rows of `width` numbers in memory of floats, `stride` of those apart, in the form that
// GemmKernels::convert_rows writes.
class RoundedRows {
 public:
  // Whether products read another form than floats, and one for which `width` floats are room
  // enough: that of floats which were rounded is padded to an even number.
  static bool fit(const GemmKernels& kernels, std::int64_t width) {
    return kernels.convert_rows && floats(kernels, width) <= width;
  }
  // Of a row.
  static std::int64_t floats(const GemmKernels& kernels, std::int64_t width) {
    return round_up(width, kernels.unit) * kernels.left_bytes / std::int64_t{sizeof(float)};
  }
  RoundedRows(const GemmKernels& kernels, float* data, std::int64_t width, std::int64_t stride)
      : kernels_(kernels), data_(data), width_(width), stride_(stride) {}
  // One row behind the other.
  RoundedRows(const GemmKernels& kernels, float* data, std::int64_t width)
      : RoundedRows(kernels, data, width, floats(kernels, width)) {}

  // Row r is those floats, which lie elsewhere.
  void store(std::int64_t r, const float* row) const {
    kernels_.convert_rows(row, width_, 1, width_, data_ + r * stride_,
                          round_up(width_, kernels_.unit));
  }
  // Numbers [column, column + count) of row r; both are even.
  void store(std::int64_t r, std::int64_t column, std::int64_t count, const float* part) const {
    char* const to = reinterpret_cast<char*>(data_ + r * stride_) + column * kernels_.left_bytes;
    kernels_.convert_rows(part, count, 1, count, to, count);
  }
  Operand operand() const { return {data_, stride_, true}; }
  Numbers numbers() const { return numbers_of(kernels_, operand()); }

 private:
  const GemmKernels& kernels_;
  float* data_;
  std::int64_t width_, stride_;
};

}  // namespace hindsearch::cpu
