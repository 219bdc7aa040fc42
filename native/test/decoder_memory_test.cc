// A step that only decodes allocates nothing of its own.
#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "native/core/thread_pool.h"
#include "native/test/decoder_fixture.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

constexpr std::int32_t kSequences = 8, kPrompt = 20, kPast = 30;

template <class Body>
std::int64_t allocated_by(Body&& body) {
  const std::int64_t before = allocations;
  body();
  return allocations - before;
}

// What the model and the backend allocate for one such step; theirs is not the decoder's affair.
std::int64_t allocated_below(Model& model) {
  const ModelConfig& config = model.config();
  KvPages pages{nullptr, config.layers, config.kv_heads, config.head_dim};
  const std::int32_t each = kPast / kPageTokens + 1;
  const auto cache = model.backend().allocate(pages.page_floats() * each * kSequences);
  pages.data = cache->data();
  std::vector<std::int32_t> table(static_cast<std::size_t>(each * kSequences));
  std::iota(table.begin(), table.end(), 0);
  const std::vector<Token> tokens(kSequences, 1);
  const std::vector<std::int32_t> positions(kSequences, kPast);
  std::vector<SequenceRows> rows;
  for (std::int32_t b = 0; b < kSequences; ++b)
    rows.push_back({b, 1, kPast, table.data() + b * each});
  std::vector<std::int64_t> logit_rows(kSequences);
  std::iota(logit_rows.begin(), logit_rows.end(), 0);
  const auto logits = model.backend().allocate(kSequences * std::int64_t{config.token_limit});
  const std::vector<Sampling> sampling(kSequences);
  const std::vector<double> uniforms(kSequences, 0.5);
  std::vector<Token> drawn(kSequences);
  std::vector<float> log_probs(kSequences);
  return allocated_by([&] {
    model.forward_cached(tokens, positions, rows, pages, logit_rows, logits->data());
    model.backend().sample(logits->data(), kSequences, config.token_limit, sampling.data(),
                           uniforms.data(), drawn.data(), log_probs.data());
  });
}

TEST(a_decoding_step_allocates_nothing) {
  set_thread_count(1);  // on more threads, who allocates what is chance
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  SegmentOptions options = segment(60);
  options.stops = {"</search>", "</answer>"};
  for (std::uint64_t k = 0; k < kSequences; ++k) {
    decoder.submit(prompt_of(kPrompt), options, {1, k}, kPrompt + 60);
  }
  std::vector<SegmentResult> finished;
  while (decoder.stats().generated_tokens < kSequences * (kPast - kPrompt + 1))
    decoder.step(finished);
  const std::int64_t below = allocated_below(*model);
  CHECK_EQ(allocated_by([&] { decoder.step(finished); }), below);
  CHECK(finished.empty());
  CHECK(allocated_by([] { std::vector<int>(3).push_back(1); }) == 2);  // the counter counts
}

}  // namespace
}  // namespace hindsearch
