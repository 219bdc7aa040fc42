// Devices, errors and the launch of kernels.
#include "native/test/cuda_host/device.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string_view>

#include "native/test/cuda_host/symbols.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace host_model {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

using Lock = std::lock_guard<std::recursive_mutex>;

struct ErrorWords {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define WORDS(name, text) \
  { name, #name, text }
constexpr ErrorWords kErrorWords[] = {
    WORDS(cudaSuccess, "no error"),
    WORDS(cudaErrorInvalidValue, "invalid argument"),
    WORDS(cudaErrorMemoryAllocation, "out of memory"),
    WORDS(cudaErrorInitializationError, "initialization error"),
    WORDS(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    WORDS(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    WORDS(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    WORDS(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    WORDS(cudaErrorInvalidDeviceFunction, "invalid device function"),
    WORDS(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    WORDS(cudaErrorInvalidDevice, "invalid device ordinal"),
    WORDS(cudaErrorNoKernelImageForDevice,
          "no kernel image is available for execution on the device"),
    WORDS(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    WORDS(cudaErrorNotReady, "device not ready"),
    WORDS(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    WORDS(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    WORDS(cudaErrorLaunchFailure, "unspecified launch failure"),
    WORDS(cudaErrorNotPermitted, "operation not permitted"),
    WORDS(cudaErrorNotSupported, "operation not supported"),
    WORDS(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    WORDS(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    WORDS(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    WORDS(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    WORDS(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    WORDS(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    WORDS(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    WORDS(cudaErrorUnknown, "unknown error"),
};
#undef WORDS

}  // namespace

Device::Device() {
  default_stream.enqueue = enqueue;
  static const std::terminate_handler before = std::set_terminate([] {
    try {
      if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
    } catch (const Fault& fault) {
      std::fprintf(stderr, "host model: %s\n", fault.message.c_str());
    } catch (...) {
    }
    before();
  });
}
Device& device() {
  static Device& one = *new Device;  // outlives every static object that frees memory
  return one;
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void set_machine(const Machine& machine) {
  const Lock lock(device().mutex);
  device().machine = machine;
}
std::size_t memory_used() {
  const Lock lock(device().mutex);
  return device().lasting + device().pool_used;
}
std::size_t kernels_run() {
  const Lock lock(device().mutex);
  return device().kernels;
}

namespace {

#if defined(__SANITIZE_ADDRESS__)
// Whether AddressSanitizer knows `address` as the host's. Pinned memory both sides may use.
bool host_address(std::uintptr_t address) {
  auto* const memory = reinterpret_cast<void*>(address);
  if (allocation_of(memory, 0) != nullptr) return false;
  void* region = nullptr;
  std::size_t bytes = 0;
  char name[1];
  const std::string_view kind = __asan_locate_address(memory, name, sizeof(name), &region, &bytes);
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(region);
  return (kind == "heap" || kind == "stack" || kind == "global") && offset < bytes;
}
#endif

}  // namespace

// A device could not follow a pointer to the host's memory.
void check_argument([[maybe_unused]] const void* kernel, [[maybe_unused]] const void* argument,
                    [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    const Lock lock(device().mutex);
    std::uintptr_t word;
    std::memcpy(&word, static_cast<const char*>(argument) + at, sizeof(word));
    if (word < 4096 || !host_address(word)) continue;
    std::ostringstream text;
    text << symbol_name(kernel) << " is given a pointer to memory that is not the device's (0x"
         << std::hex << word << ")";
    throw Fault{text.str()};
  }
#endif
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
  const Lock lock(device().mutex);
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kThreadLimit || block.z > 64 || grid.x == 0 || grid.y == 0 ||
      grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    return result(cudaErrorInvalidConfiguration);
  }
  const auto asked = device().shared_limits.find(kernel);
  const std::size_t limit = asked == device().shared_limits.end() ? 48 * 1024 : asked->second;
  if (config.dynamicSmemBytes > limit || config.numAttrs != 0) {
    return result(cudaErrorInvalidValue);
  }
  CUstream_st* const stream = stream_of(config.stream);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  return result(enqueue(
      stream, [launch = Launch{grid, block, config.dynamicSmemBytes, kernel, std::move(thread)}] {
        ++device().kernels;
        run(launch);
      }));
}

}  // namespace host_model

using host_model::device;
using host_model::result;

namespace {

// What every call that needs a device says where there is none.
cudaError_t missing_device() {
  const host_model::Machine& machine = device().machine;
  if (machine.driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return machine.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t missing_device(int index) {
  if (const cudaError_t error = missing_device()) return error;
  return index >= 0 && index < device().machine.devices ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t error = missing_device()) return result(error);
  *count = device().machine.devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return result(missing_device());
}
cudaError_t cudaSetDevice(int index) { return result(missing_device(index)); }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = device().machine.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (const cudaError_t error = missing_device(index)) return result(error);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "host model");
  properties->totalGlobalMem = device().machine.memory;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = host_model::kSharedLimit;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = host_model::kThreadLimit;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = device().machine.major;
  properties->minor = device().machine.minor;
  properties->multiProcessorCount = 4;
  properties->memoryPoolsSupported = device().machine.pools;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrIntegrated:
      *value = properties.integrated;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = properties.memoryPoolsSupported;
      return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}

cudaError_t cudaGetLastError() { return std::exchange(host_model::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return host_model::last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  for (const auto& words : host_model::kErrorWords) {
    if (words.error == error) return words.name;
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  for (const auto& words : host_model::kErrorWords) {
    if (words.error == error) return words.text;
  }
  return "unrecognized error code";
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(device().mutex);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > host_model::kSharedLimit) {
    return result(cudaErrorInvalidValue);
  }
  device().shared_limits[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
