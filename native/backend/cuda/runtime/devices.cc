#include "native/backend/cuda/runtime/devices.h"

#include <cuda_runtime.h>

#include <cstdlib>

#include "native/core/error.h"

namespace hindsearch::cuda {
namespace {

// bf16 on tensor cores begins here.
constexpr int kLeastMajor = 8;

[[noreturn]] void unavailable(const std::string& message) {
  cudaGetLastError();
  throw Error(code::kDeviceUnavailable, message);
}

// 13000 is 13.0.
std::string version_name(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The first driver of each major version (NVIDIA, "CUDA Compatibility", minor version
// compatibility).
std::string needed_driver() {
  const int major = CUDART_VERSION / 1000;
  const std::string number = major >= 13 ? "580" : "525";
  return "Install NVIDIA's driver " + number + " or later, which this build for CUDA " +
         version_name(CUDART_VERSION) + " needs";
}

void check_driver() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    unavailable("no NVIDIA driver was found. " + needed_driver() +
                "; in a container, start that with its GPUs (docker run --gpus all)");
  }
  if (version / 1000 < CUDART_VERSION / 1000) {
    unavailable("the NVIDIA driver is too old: it knows CUDA " + version_name(version) + ". " +
                needed_driver());
  }
}

void check_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    unavailable(visible == nullptr
                    ? "the NVIDIA driver shows no GPU; `nvidia-smi` lists those of the machine"
                    : "the NVIDIA driver shows no GPU, and CUDA_VISIBLE_DEVICES is \"" +
                          std::string(visible) + "\"; unset it or name a GPU of `nvidia-smi -L`");
  }
  if (status != cudaSuccess) {
    unavailable(std::string("the NVIDIA driver does not work: ") + cudaGetErrorString(status) +
                " (" + cudaGetErrorName(status) + "); see whether `nvidia-smi` does. " +
                needed_driver());
  }
}

}  // namespace

Device usable_device() {
  check_driver();
  check_count();
  cudaDeviceProp properties{};
  std::size_t free = 0, total = 0;
  cudaError_t status = cudaGetDeviceProperties(&properties, 0);
  const std::string compute =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  if (status == cudaSuccess && properties.major < kLeastMajor) {
    unavailable("the GPU " + std::string(properties.name) + " has compute capability " + compute +
                ", and 8.0 or later is needed (Ampere, 2020)");
  }
  if (status == cudaSuccess && !properties.memoryPoolsSupported) {
    unavailable("the GPU " + std::string(properties.name) +
                " gives no memory in stream order (cudaMallocAsync), as in some virtual machines; "
                "use a machine that has a GPU to itself, or a newer driver of its host");
  }
  if (status == cudaSuccess) status = cudaSetDevice(0);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free, &total);
  if (status != cudaSuccess) {
    unavailable("the GPU " + std::string(properties.name) +
                " cannot be used: " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) +
                "); see in `nvidia-smi` whether other programs fill it, and where a call of this "
                "process failed before (DEVICE_FAILED), start a new process");
  }
  return {.description = "cuda sm_" + std::to_string(properties.major) +
                         std::to_string(properties.minor) + ", " + properties.name,
          .multiprocessors = properties.multiProcessorCount,
          .total_bytes = total,
          .free_bytes = free};
}

}  // namespace hindsearch::cuda
