#include "native/backend/cuda/runtime/memory.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "native/core/error.h"

namespace hindsearch::cuda {
namespace {

std::atomic<std::size_t> lasting_bytes{0}, peak_bytes{0};

// Set once the first backend has asked for memory: to look at the pool would otherwise wake a
// device that nobody uses.
std::atomic<cudaMemPool_t> known_pool{nullptr};

std::size_t pool_attribute(cudaMemPoolAttr attribute) {
  const cudaMemPool_t pool = known_pool.load(std::memory_order_acquire);
  std::uint64_t bytes = 0;
  // Statistics: while the process ends, the runtime may be gone already.
  if (pool == nullptr || cudaMemPoolGetAttribute(pool, attribute, &bytes) != cudaSuccess) return 0;
  return static_cast<std::size_t>(bytes);
}

void count_peak() {
  const std::size_t now = lasting_bytes.load(std::memory_order_relaxed) +
                          pool_attribute(cudaMemPoolAttrReservedMemCurrent);
  std::size_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (peak < now && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void prepare_pool() {
  if (known_pool.load(std::memory_order_acquire) != nullptr) return;
  int device = 0;
  cudaMemPool_t pool = nullptr;
  check(cudaGetDevice(&device), "finding the device");
  check(cudaDeviceGetDefaultMemPool(&pool, device), "finding the memory pool");
  // Left alone, the pool gives everything back whenever the host waits, and a pass starts with
  // asking for it anew.
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
        "the memory pool");
  known_pool.store(pool, std::memory_order_release);
}

// What the pool keeps is in the way of lasting memory and, in pieces, of the pool itself.
void give_kept_memory_back() {
  check(cudaDeviceSynchronize(), "waiting for the device");
  if (const cudaMemPool_t pool = known_pool.load(std::memory_order_acquire)) {
    check(cudaMemPoolTrimTo(pool, 0), "giving memory back");
  }
}

// allocate(&data) -> cudaError_t, tried again with all there is.
template <class Allocate>
void* allocate_or_throw(std::size_t bytes, Allocate allocate) {
  void* data = nullptr;
  cudaError_t status = allocate(&data);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    give_kept_memory_back();
    status = allocate(&data);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    throw Error(code::kOutOfMemory,
                "no device memory for " + std::to_string(bytes) +
                    " bytes: " + std::to_string(free) + " of " + std::to_string(total) +
                    " are free; use a smaller model, batch or cache, or end what else runs there");
  }
  check(status, "an allocation");
  return data;
}

std::size_t bytes_of(std::int64_t floats) {
  if (floats < 0 || static_cast<std::uint64_t>(floats) >
                        std::numeric_limits<std::size_t>::max() / 2 / sizeof(float)) {
    throw Error(code::kOutOfMemory,
                "a tensor of " + std::to_string(floats) + " floats does not fit in memory");
  }
  return static_cast<std::size_t>(floats) * sizeof(float);
}

class LastingBuffer final : public Buffer {
 public:
  LastingBuffer(std::shared_ptr<const Stream> stream, std::int64_t floats)
      : stream_(std::move(stream)), memory_(bytes_of(floats)), size_(floats) {
    if (floats > 0) {
      check(cudaMemsetAsync(memory_.data(), 0, memory_.size(), stream_->get()), "clearing memory");
    }
  }
  float* data() override { return static_cast<float*>(memory_.data()); }
  const float* data() const override { return static_cast<const float*>(memory_.data()); }
  std::int64_t size() const override { return size_; }

 private:
  std::shared_ptr<const Stream> stream_;
  DeviceBytes memory_;
  std::int64_t size_;
};

class ScratchBuffer final : public Buffer {
 public:
  ScratchBuffer(std::shared_ptr<const Stream> stream, std::int64_t floats)
      : stream_(std::move(stream)),
        data_(pool_allocate(stream_->get(), bytes_of(floats))),
        size_(floats) {}
  ~ScratchBuffer() override { pool_free(stream_->get(), data_); }
  float* data() override { return static_cast<float*>(data_); }
  const float* data() const override { return static_cast<const float*>(data_); }
  std::int64_t size() const override { return size_; }

 private:
  std::shared_ptr<const Stream> stream_;
  void* data_;
  std::int64_t size_;
};

}  // namespace

Stream::Stream() {
  // Waits for nothing that other libraries of the process queue.
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "opening a stream");
}
// No check here and in the destructors below: while the process ends, the runtime may be gone, and
// its memory with it.
Stream::~Stream() { cudaStreamDestroy(stream_); }

std::shared_ptr<const Stream> Stream::shared() {
  // Leaked on purpose: the engine's thread may still drop a backend while the process exits.
  struct Current {
    std::mutex mutex;
    std::weak_ptr<const Stream> stream;
  };
  static Current& current = *std::make_unique<Current>().release();
  const std::lock_guard lock(current.mutex);
  auto stream = current.stream.lock();
  if (!stream) current.stream = stream = std::make_shared<const Stream>();
  return stream;
}

DeviceBytes::DeviceBytes(std::size_t bytes) {
  if (bytes == 0) return;
  data_ = allocate_or_throw(bytes, [bytes](void** data) { return cudaMalloc(data, bytes); });
  size_ = bytes;
  lasting_bytes.fetch_add(bytes, std::memory_order_relaxed);
  count_peak();
}
DeviceBytes::DeviceBytes(DeviceBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
DeviceBytes& DeviceBytes::operator=(DeviceBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
DeviceBytes::~DeviceBytes() {
  if (data_ == nullptr) return;
  cudaDeviceSynchronize();
  cudaFree(data_);
  lasting_bytes.fetch_sub(size_, std::memory_order_relaxed);
}

void* pool_allocate(cudaStream_t stream, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  prepare_pool();
  void* const data = allocate_or_throw(
      bytes, [bytes, stream](void** memory) { return cudaMallocAsync(memory, bytes, stream); });
  count_peak();
  return data;
}

void pool_free(cudaStream_t stream, void* data) noexcept {
  if (data != nullptr) cudaFreeAsync(data, stream);
}

std::unique_ptr<Buffer> lasting_buffer(std::shared_ptr<const Stream> stream, std::int64_t floats) {
  return std::make_unique<LastingBuffer>(std::move(stream), floats);
}
std::unique_ptr<Buffer> scratch_buffer(std::shared_ptr<const Stream> stream, std::int64_t floats) {
  return std::make_unique<ScratchBuffer>(std::move(stream), floats);
}

MemoryUse device_memory_use() {
  const std::size_t reserved = pool_attribute(cudaMemPoolAttrReservedMemCurrent);
  const std::size_t used = pool_attribute(cudaMemPoolAttrUsedMemCurrent);
  return {.bytes = lasting_bytes.load(std::memory_order_relaxed) + reserved,
          .peak = peak_bytes.load(std::memory_order_relaxed),
          .kept = reserved - std::min(used, reserved)};
}

}  // namespace hindsearch::cuda
