// What the tests of CUDA ops start from: a device with its stream, working memory and cuBLAS, and
// arrays on it. The device is a GPU, or the model of one (native/test/cuda_host): a test never
// follows a device pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/runtime/context.h"
#include "native/backend/cuda/runtime/cublas.h"
#include "native/backend/cuda/runtime/memory.h"
#include "native/test/backends.h"

namespace hindsearch::testing {

// `count` numbers in an allocation of their own, uninitialised (on the model: NaN).
template <class T>
class DeviceArray {
 public:
  DeviceArray(const cuda::Context& context, std::size_t count)
      : context_(&context), bytes_(count * sizeof(T)), count_(count) {}

  T* data() const { return static_cast<T*>(bytes_.data()); }
  std::size_t size() const { return count_; }

  void upload(const std::vector<T>& values) const {
    CHECK_EQ(values.size(), count_);
    cuda::upload_bytes(*context_, values.data(), data(), count_ * sizeof(T));
  }
  // Waits for the device.
  std::vector<T> download() const {
    std::vector<T> values(count_);
    cuda::download_bytes(*context_, data(), values.data(), count_ * sizeof(T));
    return values;
  }

 private:
  const cuda::Context* context_;
  cuda::DeviceBytes bytes_;
  std::size_t count_;
};

inline std::vector<cuda::bf16> narrowed(const Floats& values) {
  std::vector<cuda::bf16> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = cuda::to_bf16(values[i]);
  return out;
}
inline Floats widened(const std::vector<cuda::bf16>& values) {
  Floats out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = cuda::to_float(values[i]);
  return out;
}

// A weight matrix [n, k] as the compute type stores it.
struct DeviceMatrix {
  cuda::DeviceBytes bytes;
  std::int64_t n, k;
  cuda::Matrix view() const { return {bytes.data(), n, k}; }
};

class DeviceCase {
 public:
  explicit DeviceCase(ComputeType compute)
      : stream_(cuda::Stream::shared()),
        workspace_(stream_->get()),
        cublas_(stream_->get()),
        context_{stream_->get(), compute, multiprocessors(), cublas_, workspace_} {}
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  const cuda::Context& context() const { return context_; }
  ComputeType compute() const { return context_.compute; }

  template <class T>
  DeviceArray<T> array(std::size_t count) const {
    return DeviceArray<T>(context_, count);
  }
  DeviceArray<float> floats(std::size_t count) const { return array<float>(count); }
  template <class T>
  DeviceArray<T> upload(const std::vector<T>& values) const {
    DeviceArray<T> out(context_, values.size());
    out.upload(values);
    return out;
  }
  DeviceArray<cuda::bf16> upload_bf16(const Floats& values) const {
    return upload(narrowed(values));
  }
  DeviceMatrix matrix(const Floats& weight, std::int64_t n, std::int64_t k) const {
    CHECK_EQ(weight.size(), static_cast<std::size_t>(n * k));
    const std::vector<cuda::bf16> narrow = narrowed(weight);
    const bool f32 = compute() == ComputeType::f32;
    const std::size_t bytes = weight.size() * (f32 ? sizeof(float) : sizeof(cuda::bf16));
    DeviceMatrix out{cuda::DeviceBytes(bytes), n, k};
    const void* const from = f32 ? static_cast<const void*>(weight.data()) : narrow.data();
    cuda::upload_bytes(context_, from, out.bytes.data(), bytes);
    return out;
  }

  // Waits for the device; what went wrong on it is thrown here.
  void wait() const { cuda::check(cudaStreamSynchronize(context_.stream), "the test's work"); }

 private:
  static int multiprocessors() {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                "asking for the multiprocessors");
    return count;
  }

  std::shared_ptr<const cuda::Stream> stream_;
  cuda::Workspace workspace_;
  cuda::Cublas cublas_;
  cuda::Context context_;
};

// Runs body for both compute types, on the device and on the CPU's widest instruction set, for the
// expected values; a failure says which.
inline void for_compute_types(
    const std::function<void(const DeviceCase& device, Backend& cpu)>& body) {
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    try {
      body(DeviceCase(compute), *cpu::make_cpu_backend(compute, *cpu::supported_kernels().front()));
    } catch (const std::exception& error) {
      throw Failure((compute == ComputeType::f32 ? "f32: " : "bf16: ") + std::string(error.what()));
    }
  }
}

}  // namespace hindsearch::testing
