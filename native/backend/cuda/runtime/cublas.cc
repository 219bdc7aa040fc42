#include "native/backend/cuda/runtime/cublas.h"

#include <algorithm>
#include <limits>

#include "native/backend/cuda/runtime/cublas_library.h"
#include "native/backend/cuda/runtime/memory.h"
#include "native/core/error.h"

namespace hindsearch::cuda {
namespace {

// cublasOperation_t, cudaDataType_t, cublasComputeType_t, cublasGemmAlgo_t.
constexpr int kPlain = 0, kTransposed = 1;
constexpr int kFloat32 = 0, kBfloat16 = 14;
constexpr int kCompute32 = 68;          // products of bf16 are exact in f32
constexpr int kCompute32Pedantic = 69;  // without TF32
constexpr int kDefaultAlgorithm = -1;

// Working memory of a size that cuBLAS documents as enough, given once: else it would allocate its
// own, which a recorded graph must not.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

int to_int(std::int64_t size, const char* what) {
  if (size < 0 || size > std::numeric_limits<int>::max()) {
    throw Error(code::kInvalidArgument, std::string(what) + " of a matrix product is " +
                                            std::to_string(size) +
                                            ", but cuBLAS counts to 2^31 - 1; use a smaller batch");
  }
  return static_cast<int>(size);
}

}  // namespace

struct Cublas::State {
  State() : library(open_cublas()), description(library.path + ", " + library.version) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { library.api.destroy(library.handle); }

  void check(CublasApi::Status status, const char* what) const {
    if (status == 0) return;
    throw Error(code::kDeviceFailed, std::string(what) + " failed in cuBLAS (" + description +
                                         "): " + library.api.status_name(status));
  }

  DeviceBytes workspace{kWorkspaceBytes};  // first: where it fails, no handle is open yet
  CublasLibrary library;
  std::string description;
};

Cublas::Cublas(cudaStream_t stream) : state_(std::make_unique<State>()) {
  const CublasApi& api = state_->library.api;
  // The stream first: to set it takes the workspace away.
  state_->check(api.set_stream(state_->library.handle, stream), "choosing the stream");
  state_->check(
      api.set_workspace(state_->library.handle, state_->workspace.data(), state_->workspace.size()),
      "giving working memory");
}
Cublas::~Cublas() = default;

void Cublas::multiply(ComputeType type, std::int64_t m, std::int64_t n, std::int64_t k,
                      const Factor& a, const Factor& b, float* c, std::int64_t c_stride,
                      bool accumulate) const {
  if (m == 0 || n == 0) return;
  const bool bf16 = type == ComputeType::bf16;
  const int element = bf16 ? kBfloat16 : kFloat32;
  const float alpha = 1, beta = accumulate ? 1.0f : 0.0f;
  const auto operation = [](const Factor& x) { return x.transposed ? kTransposed : kPlain; };
  // cuBLAS reads columns where we have rows, so it sees every matrix transposed: c^T = b^T a^T.
  state_->check(state_->library.api.gemm(
                    state_->library.handle, operation(b), operation(a), to_int(n, "the width"),
                    to_int(m, "the number of rows"), to_int(k, "the inner size"), &alpha, b.data,
                    element, to_int(b.stride, "a stride"), a.data, element,
                    to_int(a.stride, "a stride"), &beta, c, kFloat32, to_int(c_stride, "a stride"),
                    bf16 ? kCompute32 : kCompute32Pedantic, kDefaultAlgorithm),
                "a matrix product");
}

const std::string& Cublas::description() const { return state_->description; }

}  // namespace hindsearch::cuda
