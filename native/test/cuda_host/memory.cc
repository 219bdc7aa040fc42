// Device memory, pinned host memory, and copies.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <vector>

#include "native/test/cuda_host/device.h"
#include "native/test/cuda_host/unwritten.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace host_model {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

std::size_t free_bytes() {
  const std::size_t total = device().machine.memory;
  return total - std::min(total, device().lasting + device().pool_reserved);
}

// To AddressSanitizer device memory is no memory while the device rests.
void forbid([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, bytes);
#endif
}
void allow([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(data, bytes);
#endif
}

// Takes `bytes` of the device's memory; false where there is none.
bool take(std::size_t bytes, Kind kind) {
  Device& one = device();
  switch (kind) {
    case Kind::lasting:
      if (bytes > free_bytes()) return false;
      one.lasting += bytes;
      return true;
    case Kind::pooled: {
      const std::size_t kept = one.pool_reserved - one.pool_used;
      if (bytes > kept + free_bytes()) return false;
      one.pool_used += bytes;
      one.pool_used_high = std::max(one.pool_used_high, one.pool_used);
      one.pool_reserved = std::max(one.pool_reserved, one.pool_used);
      one.pool_reserved_high = std::max(one.pool_reserved_high, one.pool_reserved);
      return true;
    }
    case Kind::pinned:
      return true;
  }
  return false;
}
void give_back(std::size_t bytes, Kind kind) {
  Device& one = device();
  if (kind == Kind::lasting) one.lasting -= bytes;
  if (kind != Kind::pooled) return;
  one.pool_used -= bytes;
  const std::size_t most = std::max<std::uint64_t>(one.pool_used, one.release_threshold);
  one.pool_reserved = std::min(one.pool_reserved, most);
}

cudaError_t allocate(void** memory, std::size_t bytes, Kind kind) {
  *memory = nullptr;
  if (bytes == 0) return kind == Kind::lasting ? cudaSuccess : cudaErrorInvalidValue;
  if (!take(bytes, kind)) return cudaErrorMemoryAllocation;
  // An allocation of its own, aligned as the device aligns: AddressSanitizer knows its end.
  void* data = nullptr;
  if (posix_memalign(&data, 256, bytes) != 0) {
    give_back(bytes, kind);
    return cudaErrorMemoryAllocation;
  }
  fill_unwritten(data, bytes);
  device().allocations[static_cast<char*>(data)] = {bytes, kind};
  if (kind != Kind::pinned && device().at_work == 0) forbid(data, bytes);
  *memory = data;
  return cudaSuccess;
}

// The live allocation that starts at `memory`; the end if there is none.
auto find(void* memory, bool pinned) {
  auto& all = device().allocations;
  const auto found = all.find(static_cast<char*>(memory));
  const bool right = found != all.end() && (found->second.kind == Kind::pinned) == pinned &&
                     !found->second.leaving;
  return right ? found : all.end();
}
cudaError_t release(void* memory, bool pinned) {
  const auto found = find(memory, pinned);
  if (found == device().allocations.end()) return cudaErrorInvalidValue;
  give_back(found->second.bytes, found->second.kind);
  device().allocations.erase(found);
  std::free(memory);
  return cudaSuccess;
}

bool on_device(const void* memory, std::size_t bytes) {
  const Allocation* const found = allocation_of(memory, bytes);
  return found != nullptr && found->kind != Kind::pinned;
}
bool pinned(const void* memory, std::size_t bytes) {
  const Allocation* const found = allocation_of(memory, bytes);
  return found != nullptr && found->kind == Kind::pinned;
}

void require_device(const void* memory, std::size_t bytes, const char* what) {
  if (on_device(memory, bytes)) return;
  std::ostringstream text;
  text << what << " of " << bytes << " bytes at " << memory
       << ", which do not lie in one allocation of device memory";
  throw Fault{text.str()};
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 CUstream_st* stream) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyDefault) {
    kind = static_cast<cudaMemcpyKind>((on_device(from, 1) ? 2 : 0) + (on_device(to, 1) ? 1 : 0));
  }
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost &&
      kind != cudaMemcpyDeviceToDevice) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const bool up = kind == cudaMemcpyHostToDevice, down = kind == cudaMemcpyDeviceToHost;
  if (!up) require_device(from, bytes, "copy from the device");
  if (!down) require_device(to, bytes, "copy to the device");
  if (up && on_device(from, 1)) throw Fault{"copy from the host, but the source is on the device"};
  if (down && on_device(to, 1)) throw Fault{"copy to the host, but the target is on the device"};
  const bool pageable = (up && !pinned(from, bytes)) || (down && !pinned(to, bytes));
  if ((pageable || up) && stream->capture != cudaStreamCaptureStatusNone) {
    throw Fault{
        "a copy of host memory is recorded: each run of the graph would use what is then there"};
  }
  if (pageable && up) {
    // The device's driver has copied the source somewhere when the call returns.
    const auto* const bytes_of = static_cast<const char*>(from);
    const auto staged = std::make_shared<std::vector<char>>(bytes_of, bytes_of + bytes);
    return enqueue(stream, [to, staged] { std::memcpy(to, staged->data(), staged->size()); });
  }
  const cudaError_t error = enqueue(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  // Into pageable memory the call waits.
  if (error == cudaSuccess && pageable) drain(stream);
  return error;
}

}  // namespace

AtWork::AtWork() {
  if (device().at_work++ > 0) return;
  for (const auto& [data, allocation] : device().allocations) {
    if (allocation.kind != Kind::pinned) allow(data, allocation.bytes);
  }
}
AtWork::~AtWork() {
  if (--device().at_work > 0) return;
  for (const auto& [data, allocation] : device().allocations) {
    if (allocation.kind != Kind::pinned) forbid(data, allocation.bytes);
  }
}

const Allocation* allocation_of(const void* memory, std::size_t bytes) {
  const auto& all = device().allocations;
  const auto* const begin = static_cast<const char*>(memory);
  auto after = all.upper_bound(begin);
  if (after == all.begin()) return nullptr;
  const auto& [start, allocation] = *--after;
  const auto offset = static_cast<std::size_t>(begin - start);
  const bool inside =
      !allocation.leaving && offset < allocation.bytes && bytes <= allocation.bytes - offset;
  return inside ? &allocation : nullptr;
}

}  // namespace host_model

using host_model::device;
using host_model::Kind;
using host_model::Lock;
using host_model::result;
using host_model::stream_of;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Lock lock(device().mutex);
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  return result(host_model::allocate(memory, bytes, Kind::lasting));
}

cudaError_t cudaFree(void* memory) {
  const Lock lock(device().mutex);
  if (memory == nullptr) return cudaSuccess;
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  host_model::drain_all();
  return result(host_model::release(memory, false));
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t handle) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  // A device would record the allocation, and allocate anew whenever the graph runs.
  if (stream->capture != cudaStreamCaptureStatusNone) {
    throw host_model::Fault{"an allocation is recorded: take working memory from the workspace"};
  }
  return result(host_model::allocate(memory, bytes, Kind::pooled));
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  const Lock lock(device().mutex);
  if (memory == nullptr) return cudaSuccess;
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream->capture != cudaStreamCaptureStatusNone) {
    throw host_model::Fault{"the freeing of memory is recorded"};
  }
  const auto found = host_model::find(memory, false);
  if (found == device().allocations.end()) return result(cudaErrorInvalidValue);
  // The pool may give it away at once; work that is queued may still use it.
  found->second.leaving = true;
  host_model::give_back(found->second.bytes, found->second.kind);
  return result(host_model::enqueue(stream, [found] {
    std::free(const_cast<char*>(found->first));
    device().allocations.erase(found);
  }));
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const Lock lock(device().mutex);
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  return result(host_model::allocate(memory, bytes, Kind::pinned));
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* memory) {
  const Lock lock(device().mutex);
  if (memory == nullptr) return cudaSuccess;
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  host_model::drain_all();
  return result(host_model::release(memory, true));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(device().mutex);
  *total = device().machine.memory;
  *free = host_model::free_bytes();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int index) {
  if (index != 0) return result(cudaErrorInvalidDevice);
  if (!device().machine.pools) return result(cudaErrorNotSupported);
  *pool = reinterpret_cast<cudaMemPool_t>(&device());
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const Lock lock(device().mutex);
  const auto number = *static_cast<std::uint64_t*>(value);
  if (pool != reinterpret_cast<cudaMemPool_t>(&device())) return result(cudaErrorInvalidValue);
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    device().release_threshold = number;
  } else if (attribute == cudaMemPoolAttrUsedMemHigh && number == 0) {
    device().pool_used_high = device().pool_used;
  } else if (attribute == cudaMemPoolAttrReservedMemHigh && number == 0) {
    device().pool_reserved_high = device().pool_reserved;
  } else {
    return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const Lock lock(device().mutex);
  auto& number = *static_cast<std::uint64_t*>(value);
  if (pool != reinterpret_cast<cudaMemPool_t>(&device())) return result(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      number = device().release_threshold;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      number = device().pool_reserved;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      number = device().pool_reserved_high;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      number = device().pool_used;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      number = device().pool_used_high;
      return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
  const Lock lock(device().mutex);
  if (pool != reinterpret_cast<cudaMemPool_t>(&device())) return result(cudaErrorInvalidValue);
  device().pool_reserved = std::max(device().pool_used, std::min(device().pool_reserved, bytes));
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  return result(host_model::copy(to, from, bytes, kind, stream));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Lock lock(device().mutex);
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  host_model::drain_all();
  const cudaError_t error = host_model::copy(to, from, bytes, kind, &device().default_stream);
  host_model::drain_all();
  return result(error);
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t handle) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  host_model::require_device(memory, bytes, "memset");
  return result(
      host_model::enqueue(stream, [memory, value, bytes] { std::memset(memory, value, bytes); }));
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  const Lock lock(device().mutex);
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  host_model::drain_all();
  const cudaError_t error = cudaMemsetAsync(memory, value, bytes, nullptr);
  host_model::drain_all();
  return error;
}
