// Working memory: what a pass leaves is used again, and what has become too small goes.
#include "native/backend/cpu/memory.h"

#include <utility>
#include <vector>

#include "native/backend/backend.h"
#include "native/test/testing.h"

namespace hindsearch::cpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(a_block_that_is_large_enough_is_used_again) {
  BlockCache cache;
  AlignedBytes first = cache.take(3 * kMiB);
  const void* place = first.data();
  cache.give(std::move(first));
  CHECK_EQ(cache.bytes(), 3 * kMiB);
  const AlignedBytes second = cache.take(2 * kMiB);
  CHECK(second.data() == place);
  CHECK_EQ(cache.bytes(), std::size_t{0});
}

TEST(passes_that_grow_leave_one_set_of_blocks_not_one_a_size) {
  BlockCache cache;
  for (std::size_t size = 8 * kMiB; size < 16 * kMiB; size += kMiB) {
    std::vector<AlignedBytes> layers;
    for (int layer = 0; layer < 4; ++layer) layers.push_back(cache.take(size));
    for (AlignedBytes& block : layers) cache.give(std::move(block));
    CHECK_EQ(cache.bytes(), 4 * size);
  }
}

TEST(a_block_of_another_purpose_is_left_alone) {
  BlockCache cache;
  cache.give(cache.take(kMiB));
  cache.give(cache.take(64 * kMiB));
  CHECK_EQ(cache.bytes(), 65 * kMiB);
}

TEST(the_process_counts_what_it_holds) {
  const MemoryUse before = memory_use();
  {
    const AlignedBytes block(32 * kMiB);
    CHECK_EQ(memory_use().bytes, before.bytes + 32 * kMiB);
    AlignedBytes moved(kMiB);
    moved = AlignedBytes(2 * kMiB);
    CHECK_EQ(memory_use().bytes, before.bytes + 34 * kMiB);
  }
  CHECK_EQ(memory_use().bytes, before.bytes);
  CHECK(memory_use().peak >= before.bytes + 34 * kMiB);
}

TEST(what_a_pass_leaves_is_counted_as_kept) {
  const auto backend = make_backend(ComputeType::f32);
  const std::size_t before = memory_use().kept;
  backend->scratch(1 << 20).reset();
  CHECK_EQ(memory_use().kept, before + 4 * kMiB);
}

}  // namespace
}  // namespace hindsearch::cpu
