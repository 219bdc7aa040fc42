// Times one library's product Y[M, N] = X[M, K] W[N, K]^T over the layers of Qwen2.5-0.5B and 3B,
// weights prepared once, and prints each cell as a JSON line beside the peak and the bandwidth
// measured just before it.
#pragma once

#include <cstdint>

#include "native/backend/backend.h"

namespace hindsearch {

// A library under test; everything in float32 but what it rounds itself.
class GemmLibrary {
 public:
  virtual ~GemmLibrary() = default;
  // Replaces what was loaded before by `copies` times the matrix [n, k].
  virtual void load(const float* weight, std::int64_t n, std::int64_t k, int copies) = 0;
  // The number of rows of the calls to come.
  virtual void prepare(std::int64_t rows) = 0;
  virtual void multiply(int copy) = 0;
};

struct CellOptions {
  ComputeType compute;
  const char* shape;  // all whose name contains it
};

void time_cells(GemmLibrary& library, const CellOptions& options);

}  // namespace hindsearch
