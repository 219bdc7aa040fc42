// Decoding with a real trained model: data/model/stories260k of the shared folder.
#include <string>
#include <vector>

#include "native/test/checkpoint.h"
#include "native/test/decoder_fixture.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

struct Stories {
  explicit Stories(const std::string& shared)
      : folder(shared + "/data/model/stories260k"),
        reference(Json::load(folder + "/reference.json")["greedy"]),
        prompt(reference["prompt_ids"].numbers<Token>()),
        bytes(read_bytes()) {
    const auto ids = reference["ids"].numbers<Token>();
    // Listed with or without the prompt.
    const std::size_t skip = ids.size() > count() ? prompt.size() : 0;
    expected.assign(ids.begin() + static_cast<std::ptrdiff_t>(skip), ids.end());
  }

  std::size_t count() const {
    return static_cast<std::size_t>(reference["max_new_tokens"].number());
  }

  // The pieces of a SentencePiece vocabulary: U+2581 is a space, <0x41> a byte, <s> a control
  // token.
  TokenBytes read_bytes() const {
    const Json tokenizer = Json::load(folder + "/tokenizer.json");
    std::map<Token, std::string> pieces;
    for (const auto& [piece, id] : tokenizer["model"]["vocab"].members()) {
      pieces[static_cast<Token>(id.number())] = piece;
    }
    TokenBytes table{{}, {0}};
    for (const auto& [id, piece] : pieces) {
      std::string text;
      if (piece.size() == 6 && piece.starts_with("<0x")) {
        text = static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
      } else if (id > 2) {
        for (std::size_t i = 0; i < piece.size(); ++i) {
          if (piece.compare(i, 3, "\xE2\x96\x81") == 0) {
            text += ' ';
            i += 2;
          } else {
            text += piece[i];
          }
        }
      }
      table.bytes.insert(table.bytes.end(), text.begin(), text.end());
      table.offsets.push_back(static_cast<std::uint32_t>(table.bytes.size()));
    }
    return table;
  }

  std::string text(const std::vector<Token>& tokens) const {
    std::string result;
    for (const Token token : tokens) {
      const auto id = static_cast<std::size_t>(token);
      result.append(bytes.bytes.begin() + bytes.offsets[id],
                    bytes.bytes.begin() + bytes.offsets[id + 1]);
    }
    return result;
  }

  std::string folder;
  Json reference;
  std::vector<Token> prompt, expected;
  TokenBytes bytes;
};

SHARED_TEST(stories_greedy_gives_the_published_tokens) {
  const Stories stories(shared);
  const auto model = load_model(stories.folder, ComputeType::f32);
  const auto n = static_cast<std::int32_t>(stories.count());
  CHECK_EQ(stories.expected.size(), stories.count());
  // Alone, and as a fork among samples that go other ways.
  Decoder decoder(model, {8192, 16, 64}, stories.bytes);
  const SequenceId parent = decoder.submit(stories.prompt, segment(n, 0), {0, 0}, n + 1);
  const SequenceId fork = decoder.fork(parent, {{0, 1}}, segment(n, 0)).front();
  decoder.fork(parent, {{0, 2}, {0, 3}, {0, 4}}, segment(n, 1));
  const Results results = run_all_of(decoder);
  CHECK(results.at(parent).tokens == stories.expected);
  CHECK(results.at(fork).tokens == stories.expected);
}

SHARED_TEST(stories_stop_inside_real_text) {
  const Stories stories(shared);
  const auto model = load_model(stories.folder, ComputeType::f32);
  const std::string story = stories.text(stories.expected);
  // Stops taken from the middle of the story, wherever the token borders are.
  int overhanging = 0;
  for (std::size_t begin = 40; begin < 80; ++begin) {
    const std::string stop = story.substr(begin, 9);
    const std::size_t end = story.find(stop) + stop.size();
    SegmentOptions options = segment(200, 0);
    options.stops = {"</search>", stop};
    Decoder decoder(model, {256, 1, 64}, stories.bytes);
    const SequenceId id = decoder.submit(stories.prompt, options, {0, 0}, 201);
    const SegmentResult result = run_all_of(decoder).at(id);
    CHECK(result.reason == FinishReason::stop);
    CHECK_EQ(result.stop_index, 1);
    const std::string text = stories.text(result.tokens);
    CHECK_EQ(text.substr(0, text.size() - static_cast<std::size_t>(result.overhang)),
             story.substr(0, end));
    overhanging += result.overhang > 0;
  }
  CHECK(overhanging > 5);
}

SHARED_TEST(stories_samples_score_as_they_were_drawn) {
  const Stories stories(shared);
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    const auto model = load_model(stories.folder, compute);
    // What lib/policy/device.ts lets a run begin with: measured on the model of a GPU, 1.3e-5 and 0.105.
    const double tolerance = !on_gpu() ? 0 : compute == ComputeType::f32 ? 1e-4 : 0.25;
    for (const float temperature : {1.0f, 0.7f}) {
      Decoder decoder(model, {8192, 16, 64}, stories.bytes);
      std::vector<RandomKey> keys;
      for (std::uint64_t k = 1; k < 8; ++k) keys.push_back({3, k});
      const SegmentOptions options = segment(100, temperature);
      const SequenceId parent = decoder.submit(stories.prompt, options, {3, 0}, 101);
      decoder.fork(parent, keys, options);
      std::vector<std::vector<Token>> sequences;
      std::vector<float> drawn;
      for (const auto& [id, result] : run_all_of(decoder)) {
        sequences.push_back(joined(stories.prompt, result.tokens));
        drawn.insert(drawn.end(), result.log_probs.begin(), result.log_probs.end());
      }
      const ScoreResult scored = model->score(
          pack(sequences), {.temperature = temperature, .first = std::vector<std::int64_t>(8, 1)});
      std::size_t i = 0;
      for (std::size_t t = 0; t < scored.log_probs.size(); ++t) {
        if (t % 101 == 0) continue;  // the prompt
        CHECK_NEAR(drawn.at(i++), scored.log_probs[t], tolerance);
      }
      CHECK_EQ(i, 800u);
    }
  }
}

}  // namespace
}  // namespace hindsearch
