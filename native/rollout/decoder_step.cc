// One step of the decoder: rows through the model, a token for every sequence that is due one.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>

#include "native/core/random.h"
#include "native/rollout/decoder_state.h"

namespace hindsearch {
namespace {

std::span<const std::uint8_t> bytes_of(const TokenBytes& table, Token token) {
  const auto id = static_cast<std::size_t>(token);
  return std::span(table.bytes)
      .subspan(table.offsets[id], table.offsets[id + 1] - table.offsets[id]);
}

}  // namespace

bool Decoder::step(std::vector<SegmentResult>& finished) {
  State& s = *state_;
  s.notice_new_weights();
  s.scheduler.admit();
  const bool ran = s.run_rows();
  if (ran) s.sample();
  s.finish_text();
  const bool reported = !s.results.empty();
  std::move(s.results.begin(), s.results.end(), std::back_inserter(finished));
  s.results.clear();
  return ran || reported;
}

// Keys and values never outlive the weights that made them: the next steps run the tokens again.
void Decoder::State::notice_new_weights() {
  if (version == model->version()) return;
  version = model->version();
  pool.forget();
  for (auto& [id, sequence] : sequences) sequence->cached = 0;
}

bool Decoder::State::run_rows() {
  scheduler.plan(batch);
  if (batch.rows.empty()) return false;
  model->forward_cached(batch.tokens, batch.positions, batch.rows, pool.view(), batch.logit_rows,
                        logits->data());
  scheduler.advance(batch);
  ++steps;
  return true;
}

void Decoder::State::sample() {
  const std::size_t n = batch.sampled.size();
  sampling.resize(n);
  uniforms.resize(n);
  drawn.resize(n);
  log_probs.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Sequence& sequence = *batch.sampled[i];
    sampling[i] = sequence.options.sampling;
    uniforms[i] = uniform(sequence.key.seed, sequence.key.stream,
                          static_cast<std::uint64_t>(sequence.size()));
  }
  if (n == 0) return;
  model->backend().sample(logits->data(), static_cast<std::int64_t>(n), token_limit,
                          sampling.data(), uniforms.data(), drawn.data(), log_probs.data());
  for (std::size_t i = 0; i < n; ++i) append(*batch.sampled[i], drawn[i], log_probs[i]);
}

void Decoder::State::append(Sequence& sequence, Token token, float log_prob) {
  if (!std::isfinite(log_prob)) {
    finish(sequence, FinishReason::failed).error =
        "sequence " + std::to_string(sequence.id) + ", position " +
        std::to_string(sequence.size()) + ": the log-prob of the next token is " +
        std::to_string(log_prob) +
        "; the weights or the activations of the tokens before it are not finite";
    return;
  }
  if (sequence.generated() == 0) sequence.first_version = version;
  sequence.last_version = version;
  sequence.tokens.push_back(token);
  sequence.log_probs.push_back(log_prob);
  ++generated;

  const StopMatch stop = sequence.stops.push(bytes_of(bytes, token));
  const std::vector<Token>& ends = sequence.options.end_tokens;
  if (stop.index >= 0) {
    SegmentResult& result = finish(sequence, FinishReason::stop);
    result.stop_index = stop.index;
    result.overhang = stop.overhang;
  } else if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
    finish(sequence, FinishReason::end_token);
  } else if (sequence.generated() == sequence.options.max_new_tokens) {
    finish(sequence, FinishReason::length);
  } else if (sequence.generated() == sequence.most_new) {
    finish(sequence, FinishReason::context);
  }
}

// Segments that generate nothing are over when their text is in the cache.
void Decoder::State::finish_text() {
  const std::vector<Sequence*>& running = scheduler.running();
  for (std::size_t i = 0; i < running.size();) {
    Sequence& sequence = *running[i];
    if (sequence.decodes() || sequence.cached < sequence.size()) {
      ++i;
      continue;
    }
    const bool full = sequence.options.max_new_tokens > 0;
    finish(sequence, full ? FinishReason::context : FinishReason::ready);  // leaves `running`
  }
}

}  // namespace hindsearch
