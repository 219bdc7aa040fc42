#include "native/backend/cpu/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <new>
#include <string>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "native/core/error.h"

namespace hindsearch::cpu {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLeastBytes = std::size_t{64} << 10, kExactBytes = std::size_t{1} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t alignment_of(std::size_t bytes) { return bytes >= kHugePage / 2 ? kHugePage : kLine; }

std::atomic<std::size_t> bytes_held{0}, bytes_peak{0};

void count(std::size_t bytes) {
  const std::size_t now = bytes_held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t peak = bytes_peak.load(std::memory_order_relaxed);
  while (peak < now && !bytes_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::size_t byte_size(std::int64_t count, std::size_t size) {
  // Half the address space is a bound that later rounding up cannot overflow.
  if (count < 0 ||
      static_cast<std::uint64_t>(count) > std::numeric_limits<std::size_t>::max() / 2 / size) {
    throw Error(code::kOutOfMemory, "a tensor of " + std::to_string(count) + " elements of " +
                                        std::to_string(size) + " bytes does not fit in memory");
  }
  return static_cast<std::size_t>(count) * size;
}

AlignedBytes::AlignedBytes(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::size_t alignment = alignment_of(bytes);
  data_ = ::operator new((bytes + alignment - 1) / alignment * alignment,
                         std::align_val_t{alignment}, std::nothrow);
  if (!data_) {
    throw Error(code::kOutOfMemory, "no memory for " + std::to_string(bytes) +
                                        " bytes; use a smaller model, batch or cache");
  }
#if defined(__linux__)
  // Weights and activations are streamed: with 4 KiB pages a good part of the time goes to page
  // walks. A refusal costs speed only.
  if (alignment == kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  count(bytes);
}
AlignedBytes::AlignedBytes(AlignedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
AlignedBytes& AlignedBytes::operator=(AlignedBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
AlignedBytes::~AlignedBytes() {
  ::operator delete(data_, std::align_val_t{alignment_of(size_)});
  bytes_held.fetch_sub(size_, std::memory_order_relaxed);
}

std::shared_ptr<BlockCache> BlockCache::shared() {
  // Leaked on purpose: the engine's thread may still drop a backend while the process exits.
  struct Current {
    std::mutex mutex;
    std::weak_ptr<BlockCache> cache;
  };
  static Current& current = *std::make_unique<Current>().release();
  const std::lock_guard lock(current.mutex);
  auto cache = current.cache.lock();
  if (!cache) current.cache = cache = std::make_shared<BlockCache>();
  return cache;
}

AlignedBytes BlockCache::take(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    // The smallest that fits without wasting more than half of it.
    auto best = blocks_.end(), outgrown = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (block->size() >= bytes) {
        const bool fits = block->size() / 2 <= bytes;
        if (fits && (best == blocks_.end() || block->size() < best->size())) best = block;
      } else if (block->size() >= bytes / 2 &&
                 (outgrown == blocks_.end() || block->size() > outgrown->size())) {
        outgrown = block;
      }
    }
    if (best != blocks_.end()) return remove(best);
    // The new block takes the place of the largest that is too small: batches of many lengths would
    // fill the cache with a set of blocks each.
    if (outgrown != blocks_.end()) remove(outgrown);
  }
  try {
    return AlignedBytes(bytes);
  } catch (const Error&) {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) throw;
    blocks_.clear();
    bytes_ = 0;
  }
  return AlignedBytes(bytes);
}

AlignedBytes BlockCache::remove(std::vector<AlignedBytes>::iterator block) {
  AlignedBytes removed = std::move(*block);
  blocks_.erase(block);
  bytes_ -= removed.size();
  return removed;
}

std::size_t BlockCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void BlockCache::give(AlignedBytes block) noexcept {
  if (block.size() > kMaxBytes) return;
  const std::lock_guard lock(mutex_);
  try {
    blocks_.push_back(std::move(block));
  } catch (const std::bad_alloc&) {
    return;  // no room to remember it: it is freed instead
  }
  bytes_ += blocks_.back().size();
  std::size_t oldest = 0;
  while (bytes_ > kMaxBytes) bytes_ -= blocks_[oldest++].size();
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(oldest));
}

void* scratch_bytes(Slot slot, std::size_t bytes) {
  thread_local std::array<AlignedBytes, static_cast<std::size_t>(Slot::count)> slots;
  AlignedBytes& memory = slots[static_cast<std::size_t>(slot)];
  if (memory.size() < bytes) {
    memory = AlignedBytes();  // first free, then allocate: the contents are not kept
    // What grows with a sequence must not be allocated anew for every token.
    memory =
        AlignedBytes(bytes < kExactBytes ? std::bit_ceil(std::max(bytes, kLeastBytes)) : bytes);
  }
  return memory.data();
}

MemoryUse memory_use() {
  return {.bytes = bytes_held.load(std::memory_order_relaxed),
          .peak = bytes_peak.load(std::memory_order_relaxed),
          .kept = BlockCache::shared()->bytes()};
}

}  // namespace hindsearch::cpu
