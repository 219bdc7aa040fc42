// For the tests of row-wise kernels: rows of heads with a stride, and how results are compared.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::unique_ptr<Backend> reference_backend() {
  return cpu::make_cpu_backend(ComputeType::f32, *cpu::supported_kernels().back());
}

struct HeadRows {
  std::size_t rows, heads, width, stride;
  std::int64_t r() const { return static_cast<std::int64_t>(rows); }
  ConstHeadsView view(const float* x) const {
    return {x, r(), static_cast<std::int64_t>(heads), static_cast<std::int64_t>(width),
            static_cast<std::int64_t>(stride)};
  }
  HeadsView view(float* x) const {
    return {x, r(), static_cast<std::int64_t>(heads), static_cast<std::int64_t>(width),
            static_cast<std::int64_t>(stride)};
  }
  std::size_t size() const { return rows * stride; }
  // To be written: what lies between the rows must stay.
  Floats poison() const { return Floats(size(), kNaN); }
};

// Where `expected` has the NaN that an output was filled with, nobody may have written.
inline double error_of(const Floats& actual, const Floats& expected) {
  CHECK_EQ(actual.size(), expected.size());
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      CHECK(same_bits(&actual[i], &expected[i], 1));
      continue;
    }
    const double difference = std::abs(double{actual[i]} - expected[i]);
    error = difference <= error ? error : difference;  // NaN stays
    scale = std::max(scale, std::abs(double{expected[i]}));
  }
  return scale > 0 ? error / scale : error;
}

}  // namespace hindsearch::testing
