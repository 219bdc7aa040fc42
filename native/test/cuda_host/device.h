// The model's one device.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "native/test/cuda_host/stream.h"

namespace host_model {

enum class Kind {
  lasting,  // of cudaMalloc
  pooled,   // of cudaMallocAsync
  pinned,   // host memory that the device can read
};
struct Allocation {
  std::size_t bytes;
  Kind kind;
  bool leaving = false;  // freed, once the work before that is done
};

struct Device {
  // Held by every call, and while work runs: host threads take turns.
  std::recursive_mutex mutex;
  std::map<const char*, Allocation> allocations;
  std::size_t lasting = 0;  // bytes
  std::size_t pool_used = 0, pool_used_high = 0;
  // What the pool holds: freed bytes stay with it up to the threshold, and are gone for cudaMalloc.
  std::size_t pool_reserved = 0, pool_reserved_high = 0;
  std::uint64_t release_threshold = 0;
  Machine machine;
  CUstream_st default_stream;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::map<const void*, std::size_t> shared_limits;  // of kernels that asked for more
  std::size_t kernels = 0;
  int at_work = 0;

  Device();
};
Device& device();

// While one lives the device's memory can be used; the host must not touch it.
class AtWork {
 public:
  AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork();
};

// The allocation that holds all of [memory, memory + bytes); null if none does.
const Allocation* allocation_of(const void* memory, std::size_t bytes);

// The stream that a handle means; null if it is none.
CUstream_st* stream_of(cudaStream_t handle);
cudaError_t enqueue(CUstream_st* stream, HostModelWork work);
// Runs what waits in a stream, or in all. After a Fault nothing waits any more.
void drain(CUstream_st* stream);
void drain_all();
// What a call that is not allowed while something is recorded returns then; the recording is lost.
cudaError_t refuse_in_capture();

// Keeps an error for cudaGetLastError.
cudaError_t result(cudaError_t error);

}  // namespace host_model
