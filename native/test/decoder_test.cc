// The life of a sequence: why a segment ends, how it is cancelled and released.
#include <algorithm>
#include <string>
#include <vector>

#include "native/test/decoder_fixture.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

// Decodes `count` tokens greedily, so that tests can aim stops and end tokens at them.
std::vector<Token> future(const std::shared_ptr<Model>& model, std::int32_t count) {
  return alone(model, prompt_of(8), segment(count), {1, 1}).tokens;
}

SegmentResult run_one(const std::shared_ptr<Model>& model, const SegmentOptions& options,
                      std::int32_t reserve = 100) {
  Decoder decoder = decoder_for(model);
  const SequenceId id = decoder.submit(prompt_of(8), options, {1, 1}, reserve);
  const SegmentResult result = run_all_of(decoder).at(id);
  CHECK(decoder.idle());
  return result;
}

TEST(ends_at_the_length_limit) {
  const auto model = tiny_model();
  const SegmentResult result = run_one(model, segment(12));
  CHECK(result.reason == FinishReason::length);
  CHECK_EQ(result.tokens.size(), 12u);
  CHECK_EQ(result.log_probs.size(), 12u);
  CHECK_EQ(result.stop_index, -1);
  CHECK_EQ(result.first_version, model->version());
  CHECK_EQ(result.last_version, model->version());
}

TEST(ends_with_the_token_that_completes_a_stop) {
  const auto model = tiny_model();
  const std::vector<Token> tokens = future(model, 30);
  // Two neighbours with bytes that did not stand together before.
  std::size_t at = 10;
  std::string stop;
  for (;; ++at) {
    CHECK(at + 1 < tokens.size());
    stop = text_of({tokens[at], tokens[at + 1]});
    const std::vector<Token> before(tokens.begin(),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    if (stop.size() == 2 && text_of(before).find(stop) == std::string::npos) break;
  }
  SegmentOptions options = segment(30);
  options.stops = {"\x7f", stop};
  options.end_tokens = {tokens[at + 1]};
  const SegmentResult result = run_one(model, options);
  // The end token may come earlier by itself; the stop goes before it when both are fulfilled at
  // once.
  const auto first_end = std::find(tokens.begin(), tokens.end(), tokens[at + 1]) - tokens.begin();
  if (static_cast<std::size_t>(first_end) < at + 1) {
    CHECK(result.reason == FinishReason::end_token);
  } else {
    CHECK(result.reason == FinishReason::stop);
    CHECK_EQ(result.stop_index, 1);
    CHECK_EQ(result.tokens.size(), at + 2);
    CHECK_EQ(result.overhang, 0);
  }
  options.end_tokens.clear();
  const SegmentResult stopped = run_one(model, options);
  CHECK(stopped.reason == FinishReason::stop);
  CHECK_EQ(stopped.tokens.size(), at + 2);
}

TEST(overhang_counts_the_bytes_behind_the_stop) {
  const auto model = tiny_model();
  TokenBytes table = tiny_bytes();  // every token with bytes now has three: "x", its own, "y"
  TokenBytes longer{{}, {0, 0}};
  for (const std::uint8_t byte : table.bytes) {
    for (const std::uint8_t b : {std::uint8_t{'x'}, byte, std::uint8_t{'y'}})
      longer.bytes.push_back(b);
    longer.offsets.push_back(static_cast<std::uint32_t>(longer.bytes.size()));
  }
  const std::vector<Token> tokens = future(model, 30);
  const auto first = std::find_if(tokens.begin(), tokens.end(), [](Token t) { return t != 0; });
  SegmentOptions options = segment(30);
  options.stops = {text_of({*first})};
  Decoder decoder(model, {512, 4, 64}, longer);
  const SequenceId id = decoder.submit(prompt_of(8), options, {1, 1}, 38);
  const SegmentResult result = run_all_of(decoder).at(id);
  CHECK(result.reason == FinishReason::stop);
  CHECK_EQ(result.tokens.size(), static_cast<std::size_t>(first - tokens.begin()) + 1);
  CHECK_EQ(result.overhang, 1);
}

TEST(stops_match_the_bytes_of_one_segment_only) {
  const auto model = tiny_model();
  const std::vector<Token> tokens = future(model, 30);
  std::size_t at = 1;
  while (tokens[at] == 0 || tokens[at + 1] == 0) ++at;
  SegmentOptions options = segment(static_cast<std::int32_t>(at + 1));
  Decoder decoder = decoder_for(model);
  const SequenceId id = decoder.submit(prompt_of(8), options, {1, 1}, 100);
  run_all_of(decoder);
  options = segment(1);
  options.stops = {text_of({tokens[at], tokens[at + 1]})};  // begins before this segment
  decoder.extend(id, {}, options);
  const SegmentResult result = run_all_of(decoder).at(id);
  CHECK_EQ(result.tokens.front(), tokens[at + 1]);
  CHECK(result.reason == FinishReason::length);
}

TEST(ends_with_any_of_several_end_tokens_and_keeps_it) {
  const auto model = tiny_model();
  const std::vector<Token> tokens = future(model, 30);
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[14]) - tokens.begin();
  SegmentOptions options = segment(30);
  Token absent = 0;
  while (std::find(tokens.begin(), tokens.end(), absent) != tokens.end()) ++absent;
  options.end_tokens = {absent, tokens[14]};
  const SegmentResult result = run_one(model, options);
  CHECK(result.reason == FinishReason::end_token);
  CHECK_EQ(result.tokens.size(), static_cast<std::size_t>(first) + 1);
  CHECK_EQ(result.tokens.back(), tokens[14]);
}

TEST(conditions_that_meet_are_reported_in_the_written_order) {
  const auto model = tiny_model();
  const std::vector<Token> tokens = future(model, 1);
  SegmentOptions options = segment(1);
  CHECK(run_one(model, options, 9).reason == FinishReason::length);  // and the context is full
  options.end_tokens = tokens;
  CHECK(run_one(model, options, 9).reason == FinishReason::end_token);
  if (tokens[0] != 0) {
    options.stops = {text_of(tokens)};
    CHECK(run_one(model, options, 9).reason == FinishReason::stop);
  }
}

TEST(ends_when_the_reserve_is_used_up) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const SequenceId id = decoder.submit(prompt_of(8), segment(4), {1, 1}, 20);
  run_all_of(decoder);
  decoder.extend(id, prompt_of(3), segment(50));
  const SegmentResult result = run_all_of(decoder).at(id);
  CHECK(result.reason == FinishReason::context);
  CHECK_EQ(result.tokens.size(), 5u);
  decoder.extend(id, {}, segment(1));  // not one token more
  const SegmentResult full = run_all_of(decoder).at(id);
  CHECK(full.reason == FinishReason::context);
  CHECK(full.tokens.empty());
}

TEST(may_use_every_position_and_every_page) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 256);
  const SequenceId id = decoder.submit(prompt_of(200), segment(56), {1, 1}, 256);
  CHECK(run_all_of(decoder).at(id).reason == FinishReason::length);
  CHECK_EQ(decoder.stats().pages_used, 16);
}

TEST(text_without_generation_is_ready) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 64, 7);
  const SequenceId id = decoder.submit(prompt_of(30), segment(0), {1, 1}, 40);
  const SegmentResult result = run_all_of(decoder).at(id);
  CHECK(result.reason == FinishReason::ready);
  CHECK(result.tokens.empty());
  CHECK_EQ(decoder.stats().prompt_tokens, 30);
  CHECK_EQ(decoder.stats().generated_tokens, 0);
}

TEST(cancel_in_every_state) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4 * kPageTokens, 64, 4);
  const std::vector<Token> tokens = future(model, 30);
  const SequenceId running = decoder.submit(prompt_of(8), segment(30), {1, 1}, 40);
  const SequenceId queued = decoder.submit(prompt_of(8), segment(30), {1, 1}, 40);
  std::vector<SegmentResult> finished;
  for (int i = 0; i < 6; ++i) decoder.step(finished);
  CHECK(finished.empty());
  decoder.cancel(running);
  decoder.cancel(queued);
  CHECK(!decoder.idle());  // two reports are due
  CHECK_EQ(decoder.stats().waiting, 2);
  CHECK(decoder.step(finished));
  CHECK_EQ(finished.size(), 2u);
  CHECK(finished[0].reason == FinishReason::cancelled);
  CHECK(finished[1].reason == FinishReason::cancelled);
  CHECK_EQ(finished[0].tokens.size(), 5u);  // two steps of prompt, the second with a first token
  CHECK(std::equal(finished[0].tokens.begin(), finished[0].tokens.end(), tokens.begin()));
  CHECK_EQ(finished[0].log_probs.size(), 5u);
  CHECK(finished[1].tokens.empty());
  CHECK_EQ(finished[1].first_version, model->version());

  decoder.cancel(running);  // waiting: nothing
  CHECK(!decoder.step(finished));
  CHECK(decoder.idle());

  // Both can go on: one has its cache, the other never had pages.
  decoder.extend(running, {}, segment(3));
  const Results more = run_all_of(decoder);
  CHECK(std::equal(more.at(running).tokens.begin(), more.at(running).tokens.end(),
                   tokens.begin() + 5));
  decoder.release(running);
  decoder.extend(queued, {}, segment(30));
  CHECK(run_all_of(decoder).at(queued).tokens == tokens);
}

TEST(cancel_while_the_prompt_is_read_and_go_on) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 64, 16);
  const SequenceId id = decoder.submit(prompt_of(60), segment(10), {2, 2}, 100);
  std::vector<SegmentResult> finished;
  decoder.step(finished);
  decoder.cancel(id);
  decoder.step(finished);
  CHECK(finished.at(0).tokens.empty());
  decoder.extend(id, {5, 6, 7}, segment(10));
  const SegmentResult result = run_all_of(decoder).at(id);
  CHECK(result.tokens ==
        alone(model, joined(prompt_of(60), {5, 6, 7}), segment(10), {2, 2}).tokens);
  CHECK_EQ(decoder.stats().repeated_tokens, 0);
}

TEST(release_in_every_state) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model, 8 * kPageTokens, 2, 4);
  const SequenceId waiting = decoder.submit(prompt_of(8), segment(0), {1, 1}, 16);
  run_all_of(decoder);
  const SequenceId decoding = decoder.submit(prompt_of(4), segment(30), {1, 2}, 40);
  const SequenceId reading = decoder.submit(prompt_of(30), segment(10), {1, 3}, 40);
  const SequenceId queued = decoder.submit(prompt_of(8), segment(30), {1, 4}, 40);
  std::vector<SegmentResult> finished;
  for (int i = 0; i < 3; ++i) decoder.step(finished);
  CHECK_EQ(decoder.stats().running, 2);
  const SequenceId reported = decoder.submit(prompt_of(8), segment(4), {1, 5}, 12);
  decoder.cancel(reported);
  for (const SequenceId id : {waiting, decoding, reading, queued, reported}) decoder.release(id);
  CHECK(!decoder.step(finished));
  CHECK(finished.empty());  // nothing more is heard of them
  CHECK(decoder.idle());
  const DecoderStats stats = decoder.stats();
  CHECK_EQ(stats.pages_used, 0);
  CHECK_EQ(stats.running + stats.waiting + stats.queued, 0);
}

TEST(memory_is_accounted) {
  const auto model = tiny_model();
  const Decoder small = decoder_for(model, 160);
  const Decoder large = decoder_for(model, 1600);
  const std::size_t page = 2u * 2 * 2 * 12 * 16 * sizeof(float);
  CHECK(large.bytes() - small.bytes() >= 90 * page);
  CHECK(large.bytes() - small.bytes() <= 90 * page + 10000);
}

}  // namespace
}  // namespace hindsearch
