// Aligned memory with an owner, and scratch that a thread keeps from one op to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "native/backend/backend.h"

namespace hindsearch::cpu {

// count * size, or Error(OUT_OF_MEMORY) where that does not fit.
std::size_t byte_size(std::int64_t count, std::size_t size);

// Uninitialised bytes at a 64-byte boundary. Throws Error(OUT_OF_MEMORY).
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes);
  AlignedBytes(AlignedBytes&& other) noexcept;
  AlignedBytes& operator=(AlignedBytes&& other) noexcept;
  ~AlignedBytes();

  void* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Freed blocks of working memory, up to a bound. The system clears every page it hands out, which
// costs a small model a quarter of its training time when each pass asks anew.
class BlockCache {
 public:
  // The one that all backends share while any of them lives.
  static std::shared_ptr<BlockCache> shared();

  // At least `bytes`, contents undefined. When there is no memory the cache is emptied first.
  AlignedBytes take(std::size_t bytes);
  void give(AlignedBytes block) noexcept;
  std::size_t bytes() const;

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

  AlignedBytes remove(std::vector<AlignedBytes>::iterator block);

  mutable std::mutex mutex_;
  std::vector<AlignedBytes> blocks_;  // the one freed last at the end
  std::size_t bytes_ = 0;
};

// Memory of the calling thread that grows and is reused. Two uses that overlap in time need two
// slots.
enum class Slot { left, shared_left, right, tile, rows, columns, attention, parts, count };
void* scratch_bytes(Slot slot, std::size_t bytes);
template <class T>
T* scratch(Slot slot, std::int64_t count) {
  return static_cast<T*>(scratch_bytes(slot, byte_size(count, sizeof(T))));
}

// What hindsearch::memory_use() says of the machine's own memory.
MemoryUse memory_use();

}  // namespace hindsearch::cpu
