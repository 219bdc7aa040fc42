// Matrix products by cuBLAS, opened at run time: the addon links no CUDA library, so that it loads
// on every machine and works with the CUDA 12 or 13 that is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

// A row-major matrix, of bf16 or float as the product's compute type says.
struct Factor {
  const void* data;
  std::int64_t stride;      // elements from one row to the next, as it is stored
  bool transposed = false;  // it is stored as its transpose
};

class Cublas {
 public:
  // Looks for the library in $HINDSEARCH_CUBLAS (a file), on the loader's path, in CUDA_HOME,
  // CUDA_PATH and /usr/local/cuda, and in the folders where pip puts nvidia-cublas. Throws
  // Error(DEVICE_UNAVAILABLE) with all that was tried, and why each failed.
  explicit Cublas(cudaStream_t stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // c[M, N] = a[M, K] b[K, N], or with `accumulate` added to c; sums in f32. f32 operands are not
  // rounded to TF32. Recordable.
  void multiply(ComputeType type, std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a,
                const Factor& b, float* c, std::int64_t c_stride, bool accumulate) const;

  // Path and version, for reports: "/usr/.../libcublas.so.12, 12.4.5".
  const std::string& description() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hindsearch::cuda
