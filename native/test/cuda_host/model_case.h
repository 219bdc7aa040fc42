// What the tests of the model share.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch::testing {

#define OK(call) CHECK_EQ(call, cudaSuccess)

template <class... Parameters, class... Arguments>
cudaError_t start_on(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                     std::size_t shared_bytes, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}
// On the default stream.
template <class... Parameters, class... Arguments>
cudaError_t start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  Arguments... arguments) {
  return start_on(nullptr, kernel, grid, block, shared_bytes, arguments...);
}

template <class T>
T* shared() {
  return static_cast<T*>(host_model::shared_bytes());
}

// An array on the device, of its own.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) { OK(cudaMalloc(&data_, count * sizeof(T))); }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    OK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data_); }
  T* data() { return data_; }
  std::vector<T> host() {
    std::vector<T> values(count_);
    OK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  T first() { return host()[0]; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// The message of the fault that `body` must throw.
template <class Body>
std::string fault_of(Body&& body) {
  try {
    body();
  } catch (const host_model::Fault& fault) {
    return fault.message;
  }
  throw Failure("the fault was not found");
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Sets HINDSEARCH_CUDA_ORDER for a while.
class OrderOfThreads {
 public:
  explicit OrderOfThreads(const char* order) {
    const char* const text = std::getenv(kName);
    before_ = text == nullptr ? "" : text;
    setenv(kName, order, 1);
  }
  ~OrderOfThreads() { setenv(kName, before_.c_str(), 1); }

 private:
  static constexpr const char* kName = "HINDSEARCH_CUDA_ORDER";
  std::string before_;
};

}  // namespace hindsearch::testing
