// A shared library in cuBLAS's place: the functions that the backend looks up, with their public
// signatures, computed on the host in the stream's turn.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "native/test/cuda_host/stream.h"

namespace {

using Status = int;
constexpr Status kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13,
                 kNotSupported = 15;
constexpr int kPlain = 0, kTransposed = 1;
constexpr int kFloat32 = 0, kBfloat16 = 14;
constexpr int kCompute32 = 68, kCompute32Pedantic = 69;

int handles_given = 0;

struct Handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
};

// A column-major matrix as cuBLAS is given it.
struct Matrix {
  const void* data;
  int type;
  int leading;
  bool transposed;

  // Element (row, column) of op(matrix).
  float at(std::int64_t row, std::int64_t column) const {
    const std::int64_t index = transposed ? column + row * leading : row + column * leading;
    if (type == kFloat32) return static_cast<const float*>(data)[index];
    return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(data)[index]}
                                << 16);
  }
};

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Matrix& a,
              const Matrix& b, float beta, float* c, std::int64_t leading) {
  std::vector<float> columns(static_cast<std::size_t>(m * k));
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t i = 0; i < m; ++i) columns[static_cast<std::size_t>(p * m + i)] = a.at(i, p);
  }
  std::vector<float> sums(static_cast<std::size_t>(m));
  for (std::int64_t j = 0; j < n; ++j) {
    sums.assign(sums.size(), 0);
    for (std::int64_t p = 0; p < k; ++p) {
      const float factor = b.at(p, j);
      const float* const column = columns.data() + p * m;
      for (std::int64_t i = 0; i < m; ++i) sums[static_cast<std::size_t>(i)] += column[i] * factor;
    }
    float* const out = c + j * leading;
    for (std::int64_t i = 0; i < m; ++i) {
      const float sum = alpha * sums[static_cast<std::size_t>(i)];
      // With beta 0 the old numbers are not read.
      out[i] = beta == 0 ? sum : sum + beta * out[i];
    }
  }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Status cublasCreate_v2(void** handle) {
  *handle = new Handle;
  ++handles_given;
  return kSuccess;
}
// For tests.
EXPORTED int hindsearchHandlesGiven() { return handles_given; }
EXPORTED Status cublasDestroy_v2(void* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete static_cast<Handle*>(handle);
  return kSuccess;
}
EXPORTED Status cublasGetVersion_v2(void* handle, int* version) {
  if (handle == nullptr) return kNotInitialized;
  *version = 130000;
  return kSuccess;
}
EXPORTED Status cublasSetStream_v2(void* handle, cudaStream_t stream) {
  if (handle == nullptr) return kNotInitialized;
  *static_cast<Handle*>(handle) = {stream, nullptr};
  return kSuccess;
}
EXPORTED Status cublasSetWorkspace_v2(void* handle, void* workspace, std::size_t bytes) {
  if (handle == nullptr) return kNotInitialized;
  if (workspace == nullptr || bytes == 0 ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
    return kInvalidValue;
  }
  static_cast<Handle*>(handle)->workspace = workspace;
  return kSuccess;
}
EXPORTED Status cublasSetMathMode(void* handle, int) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}
EXPORTED const char* cublasGetStatusString(Status status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown";
  }
}

EXPORTED Status cublasGemmEx(void* handle, int op_a, int op_b, int m, int n, int k,
                             const void* alpha, const void* a, int a_type, int lda, const void* b,
                             int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
                             int compute_type, int) {
  if (handle == nullptr) return kNotInitialized;
  const auto& state = *static_cast<Handle*>(handle);
  const auto known = [](int operation) { return operation == kPlain || operation == kTransposed; };
  const auto least = [](int rows) { return rows > 1 ? rows : 1; };
  if (!known(op_a) || !known(op_b) || m < 0 || n < 0 || k < 0 ||
      lda < least(op_a == kPlain ? m : k) || ldb < least(op_b == kPlain ? k : n) ||
      ldc < least(m) || alpha == nullptr || beta == nullptr) {
    return kInvalidValue;
  }
  if (a_type != b_type || (a_type != kFloat32 && a_type != kBfloat16) || c_type != kFloat32 ||
      (compute_type != kCompute32 && compute_type != kCompute32Pedantic)) {
    return kNotSupported;
  }
  // Without its own the library allocates working memory, which no graph may record.
  if (state.stream == nullptr || state.workspace == nullptr) return kNotSupported;
  const cudaError_t error = state.stream->enqueue(
      state.stream,
      [m, n, k, alpha = *static_cast<const float*>(alpha),
       left = Matrix{a, a_type, lda, op_a == kTransposed},
       right = Matrix{b, b_type, ldb, op_b == kTransposed}, beta = *static_cast<const float*>(beta),
       c = static_cast<float*>(c), ldc] { multiply(m, n, k, alpha, left, right, beta, c, ldc); });
  return error == cudaSuccess ? kSuccess : kExecutionFailed;
}
