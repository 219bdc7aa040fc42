// What the ops of one backend share: the stream, cuBLAS, and working memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "native/backend/cuda/device.h"
#include "native/backend/cuda/runtime/memory.h"

namespace hindsearch::cuda {

class Cublas;
class Staging;

// Working memory with an address that lasts, for the ops of a decode pass: a recorded graph keeps
// the addresses that it saw. Two uses that overlap in time need two slots.
enum class Slot {
  left,        // a matrix product's left operand, in bf16
  right,       // its right operand, where that is not a weight
  partials,    // partial results of decode attention
  parameters,  // numbers that go up to the device with an op
  results,     // numbers that come down from it
  count
};

class Workspace {
 public:
  explicit Workspace(cudaStream_t stream);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  // At least `bytes`, contents undefined. A slot that has to grow moves, and `generation` with it:
  // graphs recorded before must not be replayed. Throws Error(OUT_OF_MEMORY).
  void* bytes(Slot slot, std::size_t bytes);
  template <class T>
  T* take(Slot slot, std::int64_t count) {
    return static_cast<T*>(bytes(slot, static_cast<std::size_t>(count) * sizeof(T)));
  }
  std::uint64_t generation() const { return generation_; }

  // Host memory through which numbers go up and down.
  Staging& staging() { return *staging_; }

 private:
  cudaStream_t stream_;
  std::unique_ptr<Staging> staging_;
  std::array<DeviceBytes, static_cast<std::size_t>(Slot::count)> blocks_;
  std::uint64_t generation_ = 0;
};

struct Context {
  cudaStream_t stream;
  ComputeType compute;
  int multiprocessors;
  const Cublas& cublas;
  Workspace& workspace;
};

// `count` elements for the time of one op that no graph records, from the stream's pool. Throws
// Error(OUT_OF_MEMORY).
class TemporaryBytes {
 public:
  TemporaryBytes(cudaStream_t stream, std::size_t bytes);
  TemporaryBytes(const TemporaryBytes&) = delete;
  TemporaryBytes& operator=(const TemporaryBytes&) = delete;
  ~TemporaryBytes();
  void* data() const { return data_; }

 private:
  cudaStream_t stream_;
  void* data_;
};
template <class T>
class Temporary {
 public:
  Temporary(const Context& context, std::int64_t count)
      : bytes_(context.stream, static_cast<std::size_t>(count) * sizeof(T)) {}
  T* data() const { return static_cast<T*>(bytes_.data()); }

 private:
  TemporaryBytes bytes_;
};

// Host numbers to the device, in stream order; `host` may change as soon as this returns.
void upload_bytes(const Context& context, const void* host, void* device, std::size_t bytes);
// Device numbers to the host; returns when they are there.
void download_bytes(const Context& context, const void* device, void* host, std::size_t bytes);

}  // namespace hindsearch::cuda
