// What the decoder does when the weights change under it, and when they are not finite.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "native/rollout/page_pool.h"
#include "native/test/decoder_fixture.h"
#include "native/test/set_weights.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

// Takes over the weights of another model, as an optimizer step would.
void become(Model& model, const Model& other) {
  set_weights(model, [&](const std::string& name, std::vector<float>& values) {
    values = other.weight(name);
  });
}

void check_tokens_of(const SegmentResult& actual, const SegmentResult& before,
                     const SegmentResult& after) {
  CHECK_EQ(actual.tokens.size(), before.tokens.size() + after.tokens.size());
  CHECK(actual.tokens == joined(before.tokens, after.tokens));
  for (std::size_t i = 0; i < actual.tokens.size(); ++i) {
    const std::size_t n = before.tokens.size();
    CHECK_EQ(actual.log_probs[i], i < n ? before.log_probs[i] : after.log_probs[i - n]);
  }
}

TEST(weights_that_change_during_a_segment_count_from_the_next_token_on) {
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    const auto model = tiny_model(compute);
    const auto other = tiny_model(compute, 2);
    const std::vector<Token> prompt = prompt_of(37);
    const SegmentResult before = alone(model, prompt, segment(12), {4, 4});
    const std::uint64_t old_version = model->version();

    Decoder decoder = decoder_for(model, 4096, 64, 7);
    const SequenceId id = decoder.submit(prompt, segment(30), {4, 4}, 67);
    std::vector<SegmentResult> finished;
    while (decoder.stats().generated_tokens < 12) decoder.step(finished);
    become(*model, *other);
    const SegmentResult result = run_all_of(decoder).at(id);
    CHECK(result.reason == FinishReason::length);
    check_tokens_of(result, before,
                    alone(other, joined(prompt, before.tokens), segment(18), {4, 4}));
    CHECK_EQ(result.first_version, old_version);
    CHECK_EQ(result.last_version, model->version());
    CHECK(model->version() > old_version);
    CHECK_EQ(decoder.stats().repeated_tokens, 37 + 11);  // the twelfth had not been run yet
  }
}

TEST(a_waiting_sequence_is_read_again_when_it_goes_on) {
  const auto model = tiny_model();
  const auto other = tiny_model(ComputeType::f32, 2);
  const std::vector<Token> prompt = prompt_of(20);
  Decoder decoder = decoder_for(model);
  const SequenceId id = decoder.submit(prompt, segment(10), {4, 4}, 80);
  const SegmentResult first = run_all_of(decoder).at(id);
  become(*model, *other);
  std::vector<SegmentResult> finished;
  CHECK(!decoder.step(finished));  // a change of weights alone is no work
  decoder.extend(id, {1, 2, 3}, segment(10));
  const SegmentResult second = run_all_of(decoder).at(id);
  const std::vector<Token> text = joined(joined(prompt, first.tokens), {1, 2, 3});
  CHECK(second.tokens == alone(other, text, segment(10), {4, 4}).tokens);
  CHECK_EQ(second.first_version, model->version());
}

TEST(a_group_reads_its_prompt_again_once) {
  constexpr std::int32_t kGroup = 6, kPrompt = 50, kBefore = 8, kAfter = 12;
  constexpr std::int32_t kShared = (kPrompt - 1) / kPageTokens * kPageTokens;
  const auto model = tiny_model();
  const auto other = tiny_model(ComputeType::f32, 2);
  const std::vector<Token> prompt = prompt_of(kPrompt);
  std::vector<RandomKey> keys;
  for (std::uint64_t k = 0; k < kGroup; ++k) keys.push_back({6, k});
  std::vector<SegmentResult> before;
  for (const RandomKey& key : keys) before.push_back(alone(model, prompt, segment(kBefore), key));

  for (const std::int32_t prefill : {5, 512}) {
    become(*model, *tiny_model());
    // Exactly the pages that the group needs: reading again takes no page more.
    const std::int64_t own = pages_for(kPrompt + kBefore + kAfter) - kShared / kPageTokens;
    const std::int64_t pages = pages_for(kPrompt) + kGroup * own;
    Decoder decoder = decoder_for(model, pages * kPageTokens, 64, prefill);
    const SequenceId parent = decoder.submit(prompt, segment(0), {6, 0}, kPrompt);
    const auto children =
        decoder.fork(parent, keys, segment(kBefore + kAfter), kPrompt + kBefore + kAfter);
    std::vector<SegmentResult> finished;
    while (decoder.stats().generated_tokens < kGroup * kBefore) decoder.step(finished);
    CHECK_EQ(decoder.stats().generated_tokens, kGroup * kBefore);
    CHECK_EQ(decoder.stats().repeated_tokens, 0);
    become(*model, *other);
    const Results results = run_all_of(decoder);
    for (std::size_t k = 0; k < kGroup; ++k) {
      const auto after = alone(other, joined(prompt, before[k].tokens), segment(kAfter), keys[k]);
      check_tokens_of(results.at(children[k]), before[k], after);
    }
    const std::int32_t each = kPrompt + kBefore - 1 - kShared;  // the last token is new
    CHECK_EQ(decoder.stats().repeated_tokens, kShared + kGroup * each);
  }
}

TEST(weights_may_change_while_a_prompt_is_read) {
  const auto model = tiny_model();
  const auto other = tiny_model(ComputeType::f32, 2);
  const std::vector<Token> prompt = prompt_of(60);
  for (std::int32_t steps = 1; steps < 14; ++steps) {
    become(*model, *tiny_model());
    Decoder decoder = decoder_for(model, 4096, 64, 6);
    const SequenceId parent = decoder.submit(prompt, segment(0), {6, 0}, 60);
    const auto children = decoder.fork(parent, {{6, 1}, {6, 2}}, segment(10), 70);
    std::vector<SegmentResult> finished;
    // Nothing is drawn before the prompt of 60 is through, in ten steps of six.
    for (std::int32_t i = 0; i < std::min(steps, 9); ++i) decoder.step(finished);
    CHECK_EQ(decoder.stats().generated_tokens, 0);
    become(*model, *other);
    const Results results = run_all_of(decoder);
    for (std::uint64_t k = 0; k < 2; ++k) {
      const SegmentResult& result = results.at(children[k]);
      const SegmentResult expected = alone(other, prompt, segment(10), {6, k + 1});
      CHECK(result.tokens == expected.tokens);
      CHECK(result.log_probs == expected.log_probs);
      CHECK_EQ(result.first_version, model->version());
    }
  }
}

constexpr Token kPoison = 9;  // its embedding is not a number

std::shared_ptr<Model> poisoned_model(float poison) {
  auto model = tiny_model();
  set_weights(*model, [&](const std::string& name, std::vector<float>& values) {
    if (name == "model.embed_tokens.weight") values[kPoison * 32 + 5] = poison;
  });
  return model;
}

std::vector<SegmentOptions> all_samplings() {
  std::vector<SegmentOptions> all(5, segment(6));
  all[1].sampling.temperature = 0;
  all[2].sampling.top_k = 5;
  all[3].sampling.top_p = 0.9f;
  all[4].sampling.min_p = 0.1f;
  for (SegmentOptions& options : all) options.end_tokens = {kPoison};
  return all;
}

TEST(a_sequence_that_is_not_finite_fails_alone_and_says_where) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto model = poisoned_model(poison);
    for (const SegmentOptions& options : all_samplings()) {
      Decoder decoder = decoder_for(model);
      const SequenceId good = decoder.submit({1, 2, 3, 4, 5}, options, {1, 1}, 20);
      const SequenceId bad = decoder.submit({1, 2, kPoison, 4, 5}, options, {1, 2}, 20);
      const SequenceId fine = decoder.submit({6, 7}, options, {1, 3}, 20);
      const Results results = run_all_of(decoder);
      CHECK(results.at(bad).reason == FinishReason::failed);
      CHECK(results.at(bad).tokens.empty());
      CHECK_EQ(results.at(bad).error.substr(0, 23), std::string("sequence 2, position 5:"));
      CHECK(results.at(good).error.empty());
      CHECK(results.at(good).tokens == alone(model, {1, 2, 3, 4, 5}, options, {1, 1}).tokens);
      CHECK(results.at(fine).tokens == alone(model, {6, 7}, options, {1, 3}).tokens);
      CHECK(!results.at(good).tokens.empty());
    }
  }
}

TEST(pages_of_a_failed_sequence_can_be_used_again) {
  const auto model = poisoned_model(std::numeric_limits<float>::quiet_NaN());
  SegmentOptions options = segment(20);
  options.end_tokens = {kPoison};
  Decoder decoder = decoder_for(model, 3 * kPageTokens);
  std::vector<Token> poisoned = prompt_of(28);
  poisoned[3] = kPoison;
  const SequenceId bad = decoder.submit(poisoned, options, {1, 1}, 48);
  CHECK(run_all_of(decoder).at(bad).reason == FinishReason::failed);
  decoder.release(bad);
  // The same pages, partly filled: the lanes behind still hold what the failed sequence left there.
  const std::vector<Token> text = {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  const SequenceId good = decoder.submit(text, options, {1, 2}, 48);
  const SegmentResult result = run_all_of(decoder).at(good);
  CHECK(result.reason != FinishReason::failed);
  CHECK(result.tokens == alone(model, text, options, {1, 2}).tokens);
}

TEST(a_failed_sequence_goes_on_with_better_weights) {
  const auto model = poisoned_model(std::numeric_limits<float>::quiet_NaN());
  Decoder decoder = decoder_for(model);
  const std::vector<Token> text = {1, kPoison, 3};
  const SequenceId id = decoder.submit(text, segment(5), {1, 1}, 20);
  CHECK(run_all_of(decoder).at(id).reason == FinishReason::failed);
  decoder.extend(id, {}, segment(5));
  CHECK(run_all_of(decoder).at(id).reason == FinishReason::failed);
  become(*model, *tiny_model());
  decoder.extend(id, {}, segment(5));
  CHECK(run_all_of(decoder).at(id).tokens == alone(tiny_model(), text, segment(5), {1, 1}).tokens);
}

}  // namespace
}  // namespace hindsearch
