// Steps that only decode allocate nothing, neither in the decoder nor in model and backend below
// it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "native/core/thread_pool.h"
#include "native/test/decoder_fixture.h"

namespace {

std::atomic<std::int64_t> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  ++allocations;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (void* memory = allocate(bytes, alignof(std::max_align_t))) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

template <class Body>
std::int64_t allocated_by(Body&& body) {
  const std::int64_t before = allocations;
  body();
  return allocations - before;
}

TEST(decoding_steps_allocate_nothing) {
  constexpr std::int32_t kSequences = 8, kPrompt = 20, kTokens = 120;
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    set_thread_count(1);  // on more threads, who touches its scratch first is chance
    const auto model = tiny_model(compute);
    Decoder decoder = decoder_for(model);
    SegmentOptions options = segment(kTokens);
    options.stops = {"</search>", "</answer>"};
    for (std::uint64_t k = 0; k < kSequences; ++k) {
      decoder.submit(prompt_of(kPrompt), options, {1, k}, kPrompt + kTokens);
    }
    std::vector<SegmentResult> finished;
    for (int step = 0; step < 40; ++step) decoder.step(finished);
    // Past several page borders; scratch that grows with the sequence has grown beyond what
    // follows.
    const std::int64_t allocated = allocated_by([&] {
      for (int step = 0; step < 40; ++step) decoder.step(finished);
    });
    CHECK_EQ(allocated, 0);
    CHECK_EQ(decoder.stats().generated_tokens, 80 * kSequences);
    CHECK(finished.empty());
  }
  CHECK(allocated_by([] { std::vector<int>(3).push_back(1); }) == 2);  // the counter counts
}

}  // namespace
}  // namespace hindsearch
