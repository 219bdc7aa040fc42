// Groups share the pages of their prompt, whatever happens to the sequence they come from.
#include <string>
#include <vector>

#include "native/test/decoder_fixture.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

constexpr std::int32_t kGroup = 8;

std::vector<RandomKey> group_keys() {
  std::vector<RandomKey> keys;
  for (std::uint64_t k = 1; k <= kGroup; ++k) keys.push_back({7, k});
  return keys;
}

void check_children(const std::shared_ptr<Model>& model, const std::vector<Token>& text,
                    const std::vector<SequenceId>& children, const Results& results,
                    std::int32_t max_new_tokens) {
  for (std::size_t k = 0; k < children.size(); ++k) {
    const SegmentResult expected = alone(model, text, segment(max_new_tokens), group_keys()[k]);
    const SegmentResult& actual = results.at(children[k]);
    CHECK(actual.reason == FinishReason::length);
    CHECK(actual.tokens == expected.tokens);
    check_log_probs(actual.log_probs, expected.log_probs);
  }
}

TEST(a_group_runs_its_prompt_once) {
  const auto model = tiny_model();
  for (const std::int32_t length : {1, 15, 16, 17, 50, 64, 65}) {
    for (const std::int32_t prefill : {1, 7, 512}) {
      Decoder decoder = decoder_for(model, 4096, 64, prefill);
      const std::vector<Token> prompt = prompt_of(length);
      const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, length);
      const auto children = decoder.fork(parent, group_keys(), segment(20), length + 20);
      check_children(model, prompt, children, run_all_of(decoder), 20);
      const DecoderStats stats = decoder.stats();
      CHECK_EQ(stats.prompt_tokens, length + kGroup);  // the last token of each for its logits
      CHECK_EQ(stats.shared_tokens, std::int64_t{kGroup} * (length - 1));
      CHECK_EQ(stats.repeated_tokens, 0);
      CHECK_EQ(stats.generated_tokens, kGroup * 20);
      const std::int64_t shared_pages = (length - 1) / kPageTokens;
      const std::int64_t own_pages = (length + 20 + kPageTokens - 1) / kPageTokens - shared_pages;
      CHECK_EQ(stats.pages_used, (length + kPageTokens - 1) / kPageTokens + kGroup * own_pages);
    }
  }
}

TEST(the_first_sample_may_be_the_parent) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 64, 7);
  const std::vector<Token> prompt = prompt_of(37);
  const SequenceId parent = decoder.submit(prompt, segment(20), {7, 0}, 57);
  const auto children = decoder.fork(parent, group_keys(), segment(20));
  const Results results = run_all_of(decoder);
  check_children(model, prompt, children, results, 20);
  CHECK(results.at(parent).tokens == alone(model, prompt, segment(20), {7, 0}).tokens);
  CHECK_EQ(decoder.stats().prompt_tokens, 37 + kGroup);
}

TEST(a_fork_of_what_runs_waits_or_is_extended_starts_at_the_callers_text) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const std::vector<Token> prompt = prompt_of(37);
  const SequenceId parent = decoder.submit(prompt, segment(20), {7, 0}, 120);
  std::vector<SegmentResult> finished;
  for (int i = 0; i < 10; ++i) decoder.step(finished);  // the parent has written behind its prompt
  const auto while_running = decoder.fork(parent, group_keys(), segment(20));
  Results results = run_all_of(decoder);
  check_children(model, prompt, while_running, results, 20);
  const std::vector<Token> first_turn = results.at(parent).tokens;
  const auto while_waiting = decoder.fork(parent, group_keys(), segment(20));
  check_children(model, prompt, while_waiting, run_all_of(decoder), 20);
  CHECK_EQ(decoder.stats().prompt_tokens, 37 + 2 * kGroup);

  decoder.extend(parent, prompt_of(9, 3), segment(5));
  const auto after_turn = decoder.fork(parent, group_keys(), segment(20));
  results = run_all_of(decoder);
  const std::vector<Token> text = joined(joined(prompt, first_turn), prompt_of(9, 3));
  check_children(model, text, after_turn, results, 20);
  CHECK_EQ(results.at(parent).tokens.size(), 5u);
  CHECK_EQ(decoder.stats().prompt_tokens, 37 + 2 * kGroup + 9 + kGroup);
}

TEST(forks_of_forks_share_too) {
  const auto model = tiny_model();
  for (const std::int32_t prefill : {5, 8, 512}) {  // 8: the full pages are there before the rest
    Decoder decoder = decoder_for(model, 4096, 64, prefill);
    const std::vector<Token> prompt = prompt_of(45);
    const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, 45);
    const SequenceId child = decoder.fork(parent, {{7, 100}}, segment(20), 65).front();
    const auto grandchildren = decoder.fork(child, group_keys(), segment(20));
    check_children(model, prompt, grandchildren, run_all_of(decoder), 20);
    CHECK_EQ(decoder.stats().prompt_tokens, 45 + 1 + kGroup);
  }
}

TEST(a_fork_of_a_fork_outlives_both_in_the_queue) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const std::vector<Token> prompt = prompt_of(53);
  const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, 53);
  run_all_of(decoder);
  const SequenceId child = decoder.fork(parent, {{7, 100}}, segment(20), 73).front();
  const auto grandchildren = decoder.fork(child, group_keys(), segment(20));
  decoder.release(child);
  decoder.release(parent);
  check_children(model, prompt, grandchildren, run_all_of(decoder), 20);
  CHECK_EQ(decoder.stats().prompt_tokens, 53 + kGroup);
}

// A fork is cancelled before it has copied what its partly filled page has in common with the first
// sequence, goes another way from there, and is forked in turn. The first sequence's page then
// holds other tokens behind the common ones, and the grandchild fills pages that the fork itself
// never had.
TEST(a_fork_that_has_not_begun_may_be_extended_and_forked) {
  const auto model = tiny_model();
  const std::vector<Token> prompt = prompt_of(45);  // two full pages and twelve common lanes
  for (const std::int32_t more : {0, 2, 3, 4, 30}) {
    for (const std::int32_t prefill : {1, 2, 8, 512}) {
      Decoder decoder = decoder_for(model, 4096, 64, prefill);
      const SequenceId first = decoder.submit(prompt, segment(60), {7, 0}, 120);
      const SequenceId fork = decoder.fork(first, {{7, 100}}, segment(9)).front();
      std::vector<SegmentResult> finished;
      decoder.step(finished);  // it gets its pages, and waits for what is in the first ones
      decoder.cancel(fork);
      while (decoder.stats().generated_tokens < 5) decoder.step(finished);

      const std::vector<Token> text =
          joined(joined(prompt, finished.back().tokens), prompt_of(more, 5));
      decoder.extend(fork, prompt_of(more, 5), segment(9));
      const auto grandchildren = decoder.fork(fork, group_keys(), segment(20));
      decoder.cancel(fork);
      finished.clear();
      const std::int64_t before = decoder.stats().generated_tokens;
      while (decoder.stats().generated_tokens < before + 3 * kGroup) decoder.step(finished);
      decoder.extend(fork, {}, segment(9));  // catches up while the grandchildren decode
      Results results = run_all_of(decoder);
      for (SegmentResult& result : finished) results.emplace(result.sequence, std::move(result));
      check_children(model, text, grandchildren, results, 20);
      CHECK(results.at(fork).tokens == alone(model, text, segment(9), {7, 100}).tokens);
      CHECK(results.at(first).tokens == alone(model, prompt, segment(60), {7, 0}).tokens);
    }
  }
}

// The parent disappears after `steps` steps, while its children are queued, reading or decoding.
void lose_parent(std::int32_t steps, bool release) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 64, 6);
  const std::vector<Token> prompt = prompt_of(53);
  const SequenceId parent = decoder.submit(prompt, segment(20), {7, 0}, 80);
  const auto children = decoder.fork(parent, group_keys(), segment(20));
  std::vector<SegmentResult> finished;
  for (std::int32_t i = 0; i < steps; ++i) decoder.step(finished);
  if (release) {
    decoder.release(parent);
  } else {
    decoder.cancel(parent);
  }
  const Results results = run_all_of(decoder);
  check_children(model, prompt, children, results, 20);
  CHECK_EQ(results.count(parent), release ? 0u : 1u);
  // Whoever reads the prompt on, reads it for all: at most the last, partly filled page is read by
  // each of them.
  CHECK(decoder.stats().prompt_tokens <= 53 + kGroup * kPageTokens);
  for (const SequenceId child : children) decoder.release(child);
  if (!release) decoder.release(parent);
  CHECK_EQ(decoder.stats().pages_used, 0);
}

TEST(children_finish_when_the_parent_is_released) {
  for (const std::int32_t steps : {0, 1, 3, 8, 9, 12}) lose_parent(steps, true);
}
TEST(children_finish_when_the_parent_is_cancelled) {
  for (const std::int32_t steps : {0, 1, 3, 8, 9, 12}) lose_parent(steps, false);
}

TEST(a_parent_released_in_the_queue_leaves_one_child_to_read_for_all) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const std::vector<Token> prompt = prompt_of(53);
  const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, 53);
  const auto children = decoder.fork(parent, group_keys(), segment(20), 73);
  decoder.release(parent);
  check_children(model, prompt, children, run_all_of(decoder), 20);
  CHECK_EQ(decoder.stats().prompt_tokens, 53 + kGroup - 1);
  CHECK_EQ(decoder.stats().shared_tokens, (kGroup - 1) * 52);
}

TEST(children_that_wait_for_pages_still_share) {
  const auto model = tiny_model();
  const std::vector<Token> prompt = prompt_of(50);  // three full pages and two tokens
  Decoder decoder = decoder_for(model, 9 * kPageTokens);
  const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, 50);
  const auto children = decoder.fork(parent, group_keys(), segment(20), 70);
  Results results;
  std::vector<SegmentResult> finished;
  decoder.step(finished);
  decoder.release(parent);  // its pages stay with the children, of whom two run at a time
  do {
    for (const SegmentResult& result : finished) {
      if (result.sequence == parent) continue;
      results.emplace(result.sequence, result);
      decoder.release(result.sequence);
    }
    finished.clear();
  } while (decoder.step(finished));
  check_children(model, prompt, children, results, 20);
  CHECK_EQ(decoder.stats().prompt_tokens, 50 + kGroup);
  CHECK_EQ(decoder.stats().pages_used, 0);
}

TEST(shared_pages_of_the_queue_stand_in_nobodys_way) {
  const auto model = tiny_model();
  const std::vector<Token> prompt = prompt_of(33);
  Decoder decoder = decoder_for(model, 6 * kPageTokens);
  const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, 33);
  run_all_of(decoder);
  const SequenceId large = decoder.submit(prompt_of(60), segment(30), {1, 1}, 96);
  const auto children = decoder.fork(parent, group_keys(), segment(20), 60);
  decoder.release(parent);
  // Two pages of the prompt are held by queued children alone, and `large`, before them, needs all.
  CHECK_EQ(decoder.stats().pages_used, 2);
  std::vector<SegmentResult> finished;
  Results results;
  while (decoder.step(finished) || !decoder.idle()) {
    for (const SegmentResult& result : finished) {
      results.emplace(result.sequence, result);
      decoder.release(result.sequence);
    }
    finished.clear();
    CHECK(decoder.stats().steps < 1000);
  }
  CHECK(results.at(large).tokens == alone(model, prompt_of(60), segment(30), {1, 1}).tokens);
  check_children(model, prompt, children, results, 20);
}

TEST(a_child_may_need_the_page_it_would_copy_from) {
  const auto model = tiny_model();
  const std::vector<Token> prompt = prompt_of(40);
  Decoder decoder = decoder_for(model, 4 * kPageTokens);
  const SequenceId parent = decoder.submit(prompt, segment(0), {7, 0}, 40);
  run_all_of(decoder);
  const auto children = decoder.fork(parent, {{7, 1}}, segment(20), 64);
  decoder.release(
      parent);  // two full pages to share, one to copy from, one free: the child needs two
  const Results results = run_all_of(decoder);
  check_children(model, prompt, children, results, 20);
}

}  // namespace
}  // namespace hindsearch
