// Who goes first, and who waits for whom.
#include <vector>

#include "native/test/decoder_fixture.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

TEST(a_waiting_sequence_holds_up_nobody) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 1);  // one place in the batch
  const SequenceId first = decoder.submit(prompt_of(5), segment(3), {1, 1}, 50);
  const SequenceId second = decoder.submit(prompt_of(6), segment(3), {1, 2}, 50);
  Results results = run_all_of(decoder);
  CHECK(results.at(first).reason == FinishReason::length);
  CHECK(results.at(second).reason == FinishReason::length);
  CHECK_EQ(decoder.stats().waiting, 2);
  decoder.extend(first, prompt_of(2), segment(3));
  CHECK_EQ(decoder.stats().queued, 1);
  CHECK_EQ(run_all_of(decoder).size(), 1u);
}

TEST(rows_of_a_step_are_bounded) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 4, 10);
  decoder.submit(prompt_of(35), segment(2), {1, 1}, 40);
  decoder.submit(prompt_of(8), segment(2), {1, 2}, 40);
  std::vector<SegmentResult> finished;
  // 10, 10, 10, 5 + 5, 3 rows of prompt: the first in line takes what it needs, the rest is not
  // lost.
  for (const std::int64_t rows : {10, 20, 30, 40, 43}) {
    CHECK(decoder.step(finished));
    CHECK_EQ(decoder.stats().prompt_tokens, rows);
  }
  CHECK_EQ(decoder.stats().generated_tokens, 3);
}

TEST(admission_reserves_so_that_nothing_admitted_starves) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 10 * kPageTokens);
  std::vector<SequenceId> ids;
  for (std::uint64_t k = 0; k < 9; ++k)
    ids.push_back(decoder.submit(prompt_of(4), segment(44), {1, k}, 48));
  std::vector<SegmentResult> finished;
  decoder.step(finished);
  CHECK_EQ(decoder.stats().running, 3);  // three of three pages each; one page is left over
  CHECK_EQ(decoder.stats().queued, 6);
  while (decoder.step(finished)) {
  }
  CHECK_EQ(finished.size(), 3u);
  CHECK(!decoder.idle());  // six are queued behind pages that the caller has not released
  std::vector<SequenceId> order;
  while (order.size() < ids.size()) {
    for (const SegmentResult& result : finished) {
      CHECK(result.reason == FinishReason::length);
      order.push_back(result.sequence);
      decoder.release(result.sequence);
    }
    finished.clear();
    while (decoder.step(finished)) {
    }
  }
  CHECK(order == ids);  // first come, first served
  CHECK(decoder.idle());
  CHECK_EQ(decoder.stats().pages_used, 0);
  CHECK_EQ(decoder.stats().pages_peak, 9);
}

TEST(a_large_sequence_is_not_overtaken_for_ever) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4 * kPageTokens);
  const SequenceId small = decoder.submit(prompt_of(4), segment(20), {1, 1}, 24);
  const SequenceId large = decoder.submit(prompt_of(4), segment(20), {1, 2}, 64);
  const SequenceId late = decoder.submit(prompt_of(4), segment(20), {1, 3}, 24);
  std::vector<SegmentResult> finished;
  while (decoder.step(finished)) {
  }
  CHECK_EQ(finished.size(), 1u);  // `late` would fit, but `large` came before it
  decoder.release(small);
  while (decoder.step(finished)) {
  }
  CHECK_EQ(finished.back().sequence, large);
  decoder.release(large);
  while (decoder.step(finished)) {
  }
  CHECK_EQ(finished.back().sequence, late);
}

TEST(extended_sequences_go_before_new_ones) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 3 * kPageTokens);
  const SequenceId first = decoder.submit(prompt_of(4), segment(4), {1, 1}, 40);
  const SequenceId second =
      decoder.submit(prompt_of(4), segment(4), {1, 2}, 40);  // no pages for it
  run_all_of(decoder);
  decoder.extend(first, prompt_of(4), segment(4));
  CHECK(run_all_of(decoder).count(first) == 1);
  decoder.release(first);
  CHECK(run_all_of(decoder).count(second) == 1);
}

}  // namespace
}  // namespace hindsearch
