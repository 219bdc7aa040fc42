// Aligned memory with an owner, and scratch that a thread keeps from one op to the next.
#pragma once

#include <cstddef>
#include <cstdint>

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

// Memory of the calling thread that grows and is reused. Two uses that overlap in time need two
// slots.
enum class Slot { left, right, tile, rows, columns, attention, count };
void* scratch_bytes(Slot slot, std::size_t bytes);
template <class T>
T* scratch(Slot slot, std::int64_t count) {
  return static_cast<T*>(scratch_bytes(slot, byte_size(count, sizeof(T))));
}

}  // namespace hindsearch::cpu
