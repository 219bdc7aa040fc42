// A token, and its log-prob to the last bit, depend on weights, prefix, sampling, key and position.
#include <algorithm>
#include <memory>
#include <vector>

#include "native/core/thread_pool.h"
#include "native/test/decoder_fixture.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

struct Request {
  std::vector<Token> prompt;
  SegmentOptions options;
  RandomKey key;
};

// Lengths around page borders, all temperatures, truncated and not.
std::vector<Request> requests() {
  std::vector<Request> all;
  const std::int32_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 70};
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    Request request{prompt_of(lengths[i], static_cast<std::int32_t>(i)),
                    segment(40, i % 2 ? 0.7f : 1.0f),
                    {11, i}};
    if (i == 2) request.options.sampling.temperature = 0;
    if (i == 4) request.options.sampling.top_k = 7;
    if (i == 5) request.options.sampling.top_p = 0.8f;
    if (i == 6) request.options.sampling.min_p = 0.05f;
    all.push_back(request);
  }
  return all;
}

bool truncated(const Sampling& sampling) {
  return sampling.top_k > 0 || sampling.top_p < 1 || sampling.min_p > 0;
}

void check_same(const SegmentResult& actual, const SegmentResult& expected) {
  CHECK(actual.reason == expected.reason);
  CHECK_EQ(actual.tokens.size(), expected.tokens.size());
  for (std::size_t i = 0; i < expected.tokens.size(); ++i) {
    CHECK_EQ(actual.tokens[i], expected.tokens[i]);
    CHECK_EQ(actual.log_probs[i], expected.log_probs[i]);
  }
}

// Log-probs of `generated` after `text` as the trainer computes them.
void check_scored(Model& model, const std::vector<Token>& text, const SegmentResult& generated,
                  float temperature) {
  const PackedSequences packed{
      joined(text, generated.tokens),
      {0, static_cast<std::int64_t>(text.size() + generated.tokens.size())}};
  const auto first = static_cast<std::int64_t>(text.size());
  const ScoreResult scored =
      model.score(packed, {.temperature = temperature == 0 ? 1 : temperature, .first = {first}});
  CHECK(!generated.tokens.empty());
  for (std::size_t i = 0; i < generated.tokens.size(); ++i) {
    CHECK_EQ(generated.log_probs[i], scored.log_probs[text.size() + i]);
  }
}

template <class Body>
void with_threads(int threads, Body&& body) {
  const int before = thread_count();
  set_thread_count(threads);
  try {
    body();
  } catch (...) {
    set_thread_count(before);
    throw;
  }
  set_thread_count(before);
}

void check_all_schedules(ComputeType compute) {
  const std::shared_ptr<Model> model = tiny_model(compute);
  std::vector<SegmentResult> expected;
  with_threads(1, [&] {
    for (const Request& r : requests()) {
      expected.push_back(alone(model, r.prompt, r.options, r.key));
      CHECK_EQ(expected.back().tokens.size(), 40u);
      if (!truncated(r.options.sampling)) {
        check_scored(*model, r.prompt, expected.back(), r.options.sampling.temperature);
      }
    }
  });
  for (const int threads : {1, 2}) {
    with_threads(threads, [&] {
      for (const std::int32_t max_batch : {1, 3, 64}) {
        for (const std::int32_t prefill : {1, 7, 512}) {
          Decoder decoder = decoder_for(model, 4096, max_batch, prefill);
          std::vector<SequenceId> ids;
          for (const Request& r : requests()) {
            const auto length = static_cast<std::int32_t>(r.prompt.size());
            ids.push_back(decoder.submit(r.prompt, r.options, r.key, length + 40));
          }
          const Results results = run_all_of(decoder);
          for (std::size_t i = 0; i < ids.size(); ++i) check_same(results.at(ids[i]), expected[i]);
        }
      }
    });
  }
}

TEST(any_batch_chunk_and_thread_count_gives_the_same_bits_f32) {
  check_all_schedules(ComputeType::f32);
}
TEST(any_batch_chunk_and_thread_count_gives_the_same_bits_bf16) {
  check_all_schedules(ComputeType::bf16);
}

TEST(a_fork_draws_what_a_fresh_sequence_with_its_key_draws) {
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    const std::shared_ptr<Model> model = tiny_model(compute);
    for (const std::int32_t length : {1, 2, 16, 17, 18, 33, 64, 65, 100}) {
      const std::vector<Token> prompt = prompt_of(length);
      for (const std::int32_t prefill : {7, 512}) {
        Decoder decoder = decoder_for(model, 4096, 64, prefill);
        const SequenceId parent = decoder.submit(prompt, segment(20), {5, 0}, length + 20);
        const auto children = decoder.fork(parent, {{5, 1}, {5, 2}, {5, 3}}, segment(20, 0.7f));
        const Results results = run_all_of(decoder);
        check_same(results.at(parent), alone(model, prompt, segment(20), {5, 0}));
        for (std::uint64_t k = 0; k < 3; ++k) {
          const SegmentResult& result = results.at(children[k]);
          check_same(result, alone(model, prompt, segment(20, 0.7f), {5, k + 1}));
          check_scored(*model, prompt, result, 0.7f);
        }
      }
    }
  }
}

TEST(turns_are_scored_as_they_were_decoded) {
  const std::shared_ptr<Model> model = tiny_model();
  Decoder decoder = decoder_for(model, 4096, 64, 5);
  std::vector<Token> text = prompt_of(21);
  SequenceId id = decoder.submit(text, segment(9), {3, 3}, 200);
  for (std::int32_t turn = 1; turn <= 4; ++turn) {
    const SegmentResult result = run_all_of(decoder).at(id);
    check_scored(*model, text, result, 1);
    check_same(result, alone(model, text, segment(9), {3, 3}));
    text = joined(joined(text, result.tokens), prompt_of(6 * turn, turn));
    if (turn % 2 == 0) {  // change over to a fork in the middle of the conversation
      decoder.extend(id, prompt_of(6 * turn, turn), segment(0));
      CHECK(run_all_of(decoder).at(id).reason == FinishReason::ready);
      const SequenceId child = decoder.fork(id, {{3, 3}}, segment(9)).front();
      decoder.release(id);
      id = child;
    } else {
      decoder.extend(id, prompt_of(6 * turn, turn), segment(9));
    }
  }
}

TEST(an_extension_without_text_goes_on_where_it_stopped) {
  const std::shared_ptr<Model> model = tiny_model();
  for (const std::int32_t length : {1, 16, 17, 40}) {
    const SegmentResult whole = alone(model, prompt_of(length), segment(30), {9, 1});
    Decoder decoder = decoder_for(model);
    const SequenceId id = decoder.submit(prompt_of(length), segment(0), {9, 1}, length + 30);
    CHECK(run_all_of(decoder).at(id).reason == FinishReason::ready);
    SegmentResult pieces;
    for (const std::int32_t piece : {1, 13, 16}) {
      decoder.extend(id, {}, segment(piece));
      const SegmentResult part = run_all_of(decoder).at(id);
      pieces.tokens = joined(pieces.tokens, part.tokens);
      pieces.log_probs.insert(pieces.log_probs.end(), part.log_probs.begin(), part.log_probs.end());
    }
    pieces.reason = FinishReason::length;
    check_same(pieces, whole);
  }
}

TEST(keys_decide_and_nothing_else_random_does) {
  const std::shared_ptr<Model> model = tiny_model();
  const auto draw = [&](RandomKey key) {
    return alone(model, prompt_of(10), segment(30), key).tokens;
  };
  CHECK(draw({1, 2}) == draw({1, 2}));
  CHECK(draw({1, 2}) != draw({1, 3}));
  CHECK(draw({1, 2}) != draw({2, 2}));
  const auto greedy = [&](RandomKey key) {
    return alone(model, prompt_of(10), segment(30, 0), key).tokens;
  };
  CHECK(greedy({1, 2}) == greedy({7, 8}));
}

TEST(ids_beyond_the_tokenizer_never_come) {
  const std::shared_ptr<Model> model = tiny_model();  // 70 embedding rows, 64 ids
  Decoder decoder = decoder_for(model);
  for (std::uint64_t k = 0; k < 20; ++k) decoder.submit(prompt_of(5), segment(100, 5), {k, k}, 105);
  std::vector<int> seen(kIds);
  for (const auto& [id, result] : run_all_of(decoder)) {
    for (const Token token : result.tokens) {
      CHECK(token >= 0 && token < kIds);
      ++seen[static_cast<std::size_t>(token)];
    }
  }
  CHECK(*std::min_element(seen.begin(), seen.end()) > 0);  // hot enough that every id does come
}

}  // namespace
}  // namespace hindsearch
