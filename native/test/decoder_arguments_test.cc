// What the decoder refuses, and that a refusal changes nothing.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "native/core/error.h"
#include "native/test/decoder_fixture.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

TEST(refuses_ids_it_does_not_know) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const SequenceId id = decoder.submit(prompt_of(4), segment(4), {1, 1}, 20);
  decoder.release(id);
  for (const SequenceId unknown : {id, SequenceId{0}, SequenceId{-1}, SequenceId{99}}) {
    CHECK_ERROR(code::kInvalidArgument, decoder.extend(unknown, {}, segment(1)));
    CHECK_ERROR(code::kInvalidArgument, decoder.fork(unknown, {{1, 1}}, segment(1)));
    CHECK_ERROR(code::kInvalidArgument, decoder.cancel(unknown));
    CHECK_ERROR(code::kInvalidArgument, decoder.release(unknown));
  }
}

TEST(refuses_to_extend_what_is_still_decoding) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const SequenceId id = decoder.submit(prompt_of(4), segment(4), {1, 1}, 20);
  CHECK_ERROR(code::kInvalidArgument, decoder.extend(id, {1}, segment(1)));
  std::vector<SegmentResult> finished;
  decoder.step(finished);
  CHECK_ERROR(code::kInvalidArgument, decoder.extend(id, {1}, segment(1)));
  CHECK_EQ(run_all_of(decoder).at(id).tokens.size(), 4u);
}

TEST(refuses_text_and_options_outside_their_range) {
  const auto model = tiny_model();
  Decoder decoder = decoder_for(model);
  const auto submit = [&](std::vector<Token> prompt, SegmentOptions options,
                          std::int32_t reserve = 20) {
    decoder.submit(std::move(prompt), std::move(options), {1, 1}, reserve);
  };
  CHECK_ERROR(code::kInvalidArgument, submit({}, segment(1)));
  CHECK_ERROR(code::kInvalidArgument, submit({1, -1}, segment(1)));
  const std::string message = CHECK_ERROR(code::kInvalidArgument, submit({1, 64}, segment(1)));
  CHECK_EQ(message, "submit: tokens[1] is 64, outside the tokenizer's ids [0, 64)");
  CHECK_ERROR(code::kInvalidArgument, submit({1}, segment(-1)));
  CHECK_ERROR(code::kInvalidArgument, submit({1}, segment(4), 4));
  CHECK_ERROR(code::kInvalidArgument, submit({1}, segment(4), 0));
  CHECK_ERROR(code::kInvalidArgument, submit({1}, segment(4), -5));

  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto with = [&](auto change) {
    SegmentOptions options = segment(1);
    change(options);
    CHECK_ERROR(code::kInvalidArgument, submit({1}, options));
  };
  for (const float bad : {-0.1f, 1e-45f, 1e-38f, 9.9e-5f, 1.01e4f, nan, infinity})
    with([&](auto& o) { o.sampling.temperature = bad; });
  CHECK_EQ(
      CHECK_ERROR(code::kInvalidArgument, submit({1}, segment(1, 0x1p-20f))),
      std::string("submit: temperature is 9.5367432e-07, expected 0 (greedy) or 0.0001 to 10000"));
  for (const float bad : {0.0f, -1.0f, 1.1f, nan}) with([&](auto& o) { o.sampling.top_p = bad; });
  for (const float bad : {-0.1f, 1.1f, nan}) with([&](auto& o) { o.sampling.min_p = bad; });
  with([](auto& o) { o.sampling.top_k = -1; });
  with([](auto& o) { o.stops = {"a", ""}; });
  with([](auto& o) { o.end_tokens = {64}; });
  with([](auto& o) { o.end_tokens = {-1}; });

  const SequenceId id = decoder.submit({1}, segment(0), {1, 1}, 20);
  run_all_of(decoder);
  CHECK_ERROR(code::kInvalidArgument, decoder.extend(id, {64}, segment(1)));
  CHECK_ERROR(code::kInvalidArgument, decoder.extend(id, {1}, segment(-1)));
  CHECK_ERROR(code::kInvalidArgument, decoder.fork(id, {{1, 1}}, segment(-1)));
  CHECK_ERROR(code::kInvalidArgument,
              decoder.fork(id, {{1, 1}}, segment(20)));  // reserve 20 is for 19
  CHECK_ERROR(code::kInvalidArgument, decoder.fork(id, {{1, 1}}, segment(1), -1));
  CHECK(decoder.fork(id, {}, segment(1)).empty());
  CHECK_EQ(decoder.stats().waiting, 1);  // nothing of all that has left a trace
  CHECK(decoder.idle());
}

TEST(refuses_what_can_never_fit) {
  const auto model = tiny_model();          // 256 positions
  Decoder small = decoder_for(model, 100);  // 7 pages: 112 tokens
  CHECK_ERROR(code::kContextFull, small.submit(prompt_of(100), segment(13), {1, 1}, 113));
  CHECK_ERROR(code::kContextFull, small.submit(prompt_of(10), segment(1), {1, 1}, 113));
  small.submit(prompt_of(100), segment(12), {1, 1}, 112);
  Decoder large = decoder_for(model, 4096);
  CHECK_ERROR(code::kContextFull, large.submit(prompt_of(200), segment(57), {1, 1}, 257));
  CHECK_ERROR(code::kContextFull,
              large.submit({1}, segment(std::numeric_limits<std::int32_t>::max()), {1, 1}, 256));
  const SequenceId id = large.submit(prompt_of(10), segment(2), {1, 1}, 20);
  run_all_of(large);
  CHECK_ERROR(code::kContextFull, large.fork(id, {{1, 1}}, segment(250)));
  CHECK_ERROR(code::kContextFull, large.extend(id, prompt_of(9), segment(1)));
  large.extend(id, prompt_of(8), segment(1));
}

TEST(refuses_a_decoder_that_cannot_be) {
  const auto model = tiny_model();
  const auto make = [&](std::shared_ptr<Model> m, DecoderOptions options, TokenBytes bytes) {
    Decoder decoder(std::move(m), options, std::move(bytes));
  };
  CHECK_ERROR(code::kInvalidArgument, make(nullptr, {512, 4, 4}, tiny_bytes()));
  CHECK_ERROR(code::kInvalidArgument, make(model, {0, 4, 4}, tiny_bytes()));
  CHECK_ERROR(code::kInvalidArgument, make(model, {512, 0, 4}, tiny_bytes()));
  CHECK_ERROR(code::kInvalidArgument, make(model, {512, 4, 0}, tiny_bytes()));
  CHECK_ERROR(code::kInvalidArgument,
              make(model, {std::numeric_limits<std::int64_t>::max(), 4, 4}, tiny_bytes()));
  TokenBytes bytes = tiny_bytes();
  bytes.offsets.pop_back();
  CHECK_ERROR(code::kInvalidArgument, make(model, {512, 4, 4}, bytes));
  bytes = tiny_bytes();
  std::swap(bytes.offsets[5], bytes.offsets[6]);
  CHECK_ERROR(code::kInvalidArgument, make(model, {512, 4, 4}, bytes));
  bytes = tiny_bytes();
  bytes.bytes.pop_back();
  CHECK_ERROR(code::kInvalidArgument, make(model, {512, 4, 4}, bytes));
  CHECK_ERROR(code::kInvalidArgument, make(model, {512, 4, 4}, {}));
}

}  // namespace
}  // namespace hindsearch
