// Passes without backward: scoring, logits, decoding.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string>

#include "native/backend/temperature.h"
#include "native/model/inference_pass.h"
#include "native/model/model.h"
#include "native/model/scored_tokens.h"
#include "native/model/state.h"

namespace hindsearch {
namespace {

void check_options(const ScoreOptions& options, const PackedSequences& packed) {
  check_temperature("score", options.temperature, false);
  const std::size_t count = packed.offsets.size() - 1;
  if (options.first.size() != count) {
    throw Error(code::kInvalidArgument, "score: first has " + std::to_string(options.first.size()) +
                                            " entries, expected one per sequence, " +
                                            std::to_string(count));
  }
  if (!options.mask.empty() && options.mask.size() != packed.tokens.size()) {
    throw Error(code::kInvalidArgument,
                "score: the mask has " + std::to_string(options.mask.size()) +
                    " entries, expected one per token, " + std::to_string(packed.tokens.size()));
  }
  for (std::size_t b = 0; b < count; ++b) {
    const std::int64_t length = packed.offsets[b + 1] - packed.offsets[b];
    if (options.first[b] < 1 || options.first[b] > length) {
      throw Error(code::kInvalidArgument,
                  "score: first of sequence " + std::to_string(b) + " is " +
                      std::to_string(options.first[b]) + ", expected 1 to its length, " +
                      std::to_string(length) + "; nothing predicts its first token");
    }
  }
}

void check_cached_rows(const ModelConfig& config, std::span<const Token> tokens,
                       std::span<const std::int32_t> positions,
                       std::span<const SequenceRows> sequences,
                       std::span<const std::int32_t> logit_rows) {
  const auto refuse = [](const std::string& message) {
    throw Error(code::kInvalidArgument, "forward_cached: " + message);
  };
  const auto rows = static_cast<std::int64_t>(tokens.size());
  if (positions.size() != tokens.size()) refuse("tokens and positions differ in number");
  std::int64_t next = 0;
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const SequenceRows& sequence = sequences[b];
    if (sequence.first_row != next || sequence.rows < 1 || sequence.past < 0 ||
        sequence.rows > rows - next || sequence.rows > config.max_positions - sequence.past) {
      refuse("sequence " + std::to_string(b) + " has " + std::to_string(sequence.rows) +
             " rows from row " + std::to_string(sequence.first_row) + " after " +
             std::to_string(sequence.past) +
             " tokens; expected rows one after the other and at most " +
             std::to_string(config.max_positions) + " positions");
    }
    for (std::int32_t i = 0; i < sequence.rows; ++i, ++next) {
      check_token(tokens[static_cast<std::size_t>(next)], config, "forward_cached",
                  static_cast<std::int64_t>(b), sequence.past + i);
      if (positions[static_cast<std::size_t>(next)] != sequence.past + i) {
        refuse("row " + std::to_string(next) + " is at position " +
               std::to_string(positions[static_cast<std::size_t>(next)]) + ", expected " +
               std::to_string(sequence.past + i));
      }
    }
  }
  if (next != rows)
    refuse("sequences have " + std::to_string(next) + " rows, tokens " + std::to_string(rows));
  for (const std::int32_t row : logit_rows) {
    if (row < 0 || row >= rows) refuse("logit row " + std::to_string(row) + " does not exist");
  }
}

}  // namespace

ScoreResult Model::score(const PackedSequences& packed, const ScoreOptions& options,
                         const CancelFlag* cancel) {
  State& s = *state_;
  validate(packed, s.config, "score");
  check_options(options, packed);
  ScoreResult result;
  result.log_probs.resize(packed.tokens.size());
  if (options.entropy) result.entropies.resize(packed.tokens.size());

  const auto wanted = [&](std::int64_t sequence, std::int64_t position, std::int64_t token) {
    return position >= options.first[static_cast<std::size_t>(sequence)] &&
           (options.mask.empty() || options.mask[static_cast<std::size_t>(token)] != 0);
  };
  // Of the sequences with a token to score, the rows up to the one that predicts the last of them.
  std::vector<Prefix> prefixes;
  for (std::size_t b = 0; b < options.first.size(); ++b) {
    const auto sequence = static_cast<std::int64_t>(b);
    const std::int64_t begin = packed.offsets[b];
    std::int64_t rows = packed.offsets[b + 1] - begin - 1;
    while (rows > 0 && !wanted(sequence, rows, begin + rows)) --rows;
    if (rows > 0) prefixes.push_back({sequence, static_cast<std::int32_t>(rows)});
  }
  for (const std::span<const Prefix> part : micro_batches(prefixes, options.micro_batch_tokens)) {
    const Batch batch(packed, part);
    const ScoredTokens scored(packed, batch, [&](const SequenceToken& place) {
      return wanted(place.sequence, place.position, place.token);
    });
    const Network network = s.network(batch.longest());
    const InferencePass pass(network, batch, "score", cancel);
    const HeadScores scores = score_tokens(network, pass.x(), scored, options.temperature,
                                           options.entropy, "score", cancel);
    for (std::size_t i = 0; i < scored.places.size(); ++i) {
      const auto t = static_cast<std::size_t>(scored.places[i].token);
      result.log_probs[t] = scores.log_probs[i];
      if (options.entropy) result.entropies[t] = scores.entropies[i];
    }
  }
  return result;
}

std::vector<float> Model::logits(const PackedSequences& packed) {
  State& s = *state_;
  validate(packed, s.config, "logits");
  const std::int64_t rows = static_cast<std::int64_t>(packed.tokens.size());
  if (rows == 0) return {};
  std::vector<Prefix> prefixes;
  for (std::size_t b = 0; b + 1 < packed.offsets.size(); ++b) {
    prefixes.push_back({static_cast<std::int64_t>(b),
                        static_cast<std::int32_t>(packed.offsets[b + 1] - packed.offsets[b])});
  }
  const Batch batch(packed, prefixes);
  const Network network = s.network(batch.longest());
  const InferencePass pass(network, batch, "logits", nullptr);
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  float *gathered, *hidden, *logits;
  Slab slab;
  slab.add(gathered, rows * s.config.hidden);
  slab.add(hidden, rows * s.config.hidden);
  slab.add(logits, rows * s.config.token_limit);
  slab.allocate(*s.backend);
  const Operand normed = gather_normed(network, pass.x(), all, gathered, hidden, nullptr);
  s.backend->head_logits(normed, rows, *s.weights->head, logits);
  std::vector<float> result(static_cast<std::size_t>(rows * s.config.token_limit));
  s.backend->download(logits, result.data(), rows * s.config.token_limit);
  return result;
}

void Model::forward_cached(std::span<const Token> tokens, std::span<const std::int32_t> positions,
                           std::span<const SequenceRows> sequences, const KvPages& pages,
                           std::span<const std::int32_t> logit_rows, float* logits) {
  State& s = *state_;
  check_cached_rows(s.config, tokens, positions, sequences, logit_rows);
  if (tokens.empty()) return;
  Backend& backend = *s.backend;
  const Network network = s.network(*std::max_element(positions.begin(), positions.end()) + 1);
  const auto count = static_cast<std::int64_t>(tokens.size());
  const bool single = sequences.size() == tokens.size();
  DecodeWorkspace& work = s.decode_workspace(network, single ? backend.padded_rows(count) : count);
  work.index->assign(tokens, positions, sequences);
  const PassRows pass{*work.index, pages};
  const auto layers = [&] {
    embed_forward(network, pass, work.x);
    for (std::int32_t l = 0; l < s.config.layers; ++l) {
      layer_forward(network, pass, l, work.x, work.x, *work.tape, *work.scratch);
    }
  };
  if (single && logit_rows.size() == tokens.size() &&
      std::is_sorted(logit_rows.begin(), logit_rows.end())) {
    // One new token a sequence, all of them sampled from: the bulk of a rollout.
    const std::array<const void*, 5> key = {pages.data, logits, network.weights.arena->data(),
                                            network.cosines, network.sines};
    const auto decode = [&] {
      layers();
      const Operand normed = final_norm(network, work.x, pass.rows(), work.hidden, nullptr);
      backend.head_logits(normed, pass.rows(), *network.weights.head, logits);
    };
    backend.run(*work.index, key, std::cref(decode));  // by reference: a step allocates nothing
    return;
  }
  layers();
  if (logit_rows.empty()) return;
  const Operand normed =
      gather_normed(network, work.x, logit_rows, work.gathered, work.hidden, nullptr);
  backend.head_logits(normed, static_cast<std::int64_t>(logit_rows.size()), *network.weights.head,
                      logits);
}

DecodeWorkspace& Model::State::decode_workspace(const Network& network, std::int64_t rows) {
  if (decode && decode->rows >= rows) return *decode;
  decode.reset();
  auto workspace = std::make_unique<DecodeWorkspace>();
  workspace->rows = rows;
  workspace->tape = std::make_unique<LayerTape>(network, rows, Purpose::inference);
  workspace->scratch = std::make_unique<LayerScratch>(network, rows, Purpose::inference);
  workspace->slab.add(workspace->x, rows * config.hidden);
  workspace->slab.add(workspace->gathered, rows * config.hidden);
  workspace->slab.add(workspace->hidden, rows * config.hidden);
  workspace->slab.allocate(*backend);
  workspace->index = backend->index(true);
  decode = std::move(workspace);
  return *decode;
}

}  // namespace hindsearch
