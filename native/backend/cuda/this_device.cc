// What the rest asks of "the device" where a GPU is it.
#include <exception>

#include "native/backend/cuda/cuda_backend.h"
#include "native/backend/cuda/runtime/cublas_library.h"
#include "native/backend/cuda/runtime/devices.h"
#include "native/backend/cuda/runtime/memory.h"

namespace hindsearch {

std::unique_ptr<Backend> make_backend(ComputeType compute) {
  return cuda::make_cuda_backend(compute);
}

MemoryUse memory_use() { return cuda::device_memory_use(); }

// Of the kernels, not of the GPU, which is looked for when it is needed.
const char* instruction_set() { return "cuda"; }

DeviceInfo device_info() {
  DeviceInfo info{};
  try {
    const cuda::Device device = cuda::usable_device();
    info.description = device.description;
    info.total_bytes = device.total_bytes;
    info.free_bytes = device.free_bytes;
    info.description += ", " + cuda::describe_cublas();
  } catch (const std::exception& error) {
    info.unavailable = error.what();
  }
  return info;
}

}  // namespace hindsearch
