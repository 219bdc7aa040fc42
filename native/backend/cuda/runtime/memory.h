// Device memory with an owner. All of it is counted.
#pragma once

#include <cstddef>
#include <memory>

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

// All work of a process goes into one queue: its backends are used by the engine's one thread, and
// buffers pass from one backend to another without any waiting.
class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // The one that all backends share while any of them, or of their buffers, lives.
  static std::shared_ptr<const Stream> shared();

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Lasting bytes, uninitialised. Throws Error(OUT_OF_MEMORY). Their end waits for the device.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  explicit DeviceBytes(std::size_t bytes);
  DeviceBytes(DeviceBytes&& other) noexcept;
  DeviceBytes& operator=(DeviceBytes&& other) noexcept;
  ~DeviceBytes();

  void* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Bytes in stream order from a pool that keeps what is freed. Throws Error(OUT_OF_MEMORY).
void* pool_allocate(cudaStream_t stream, std::size_t bytes);
void pool_free(cudaStream_t stream, void* data) noexcept;

// Backend::allocate and Backend::scratch.
std::unique_ptr<Buffer> lasting_buffer(std::shared_ptr<const Stream> stream, std::int64_t floats);
std::unique_ptr<Buffer> scratch_buffer(std::shared_ptr<const Stream> stream, std::int64_t floats);

// What hindsearch::memory_use() says of the device.
MemoryUse device_memory_use();

}  // namespace hindsearch::cuda
