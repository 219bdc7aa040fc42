#include "native/rollout/decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "native/core/error.h"
#include "native/rollout/decoder_state.h"

namespace hindsearch {

namespace {

// Evaluated before anything is built from the arguments.
const Model& checked(const Model* model, const DecoderOptions& options, const TokenBytes& bytes) {
  check_decoder(model, options, bytes);
  return *model;
}

}  // namespace

Decoder::State::State(std::shared_ptr<Model> m, const DecoderOptions& options, TokenBytes b)
    : model(std::move(m)),
      bytes(std::move(b)),
      token_limit(checked(model.get(), options, bytes).config().token_limit),
      pool(model->backend(), model->config().layers, model->config().kv_heads,
           model->config().head_dim, pages_for(options.cache_tokens)),
      limits{model->config().max_positions, pool.total() * kPageTokens},
      scheduler(pool, options.max_batch, options.prefill_tokens),
      version(model->version()),
      logits(model->backend().allocate(model->backend().padded_rows(options.max_batch) *
                                         token_limit)) {}

Decoder::Decoder(std::shared_ptr<Model> model, DecoderOptions options, TokenBytes bytes)
    : state_(std::make_unique<State>(std::move(model), options, std::move(bytes))) {}

Decoder::~Decoder() = default;

Sequence& Decoder::State::find(const char* where, SequenceId id) {
  const auto found = sequences.find(id);
  if (found == sequences.end()) {
    throw Error(code::kInvalidArgument, std::string(where) + ": there is no sequence " +
                                            std::to_string(id) + "; it was released, or never was");
  }
  return *found->second;
}

// All that may throw comes before the first change of `sequence`.
void Decoder::State::begin_segment(Sequence& sequence, SegmentOptions options) {
  const std::int32_t most = std::min(options.max_new_tokens, sequence.reserve - sequence.size());
  StopMatcher stops(options.stops);
  std::vector<float> room;
  room.reserve(static_cast<std::size_t>(most));
  sequence.stops = std::move(stops);
  sequence.log_probs = std::move(room);
  sequence.options = std::move(options);
  sequence.most_new = most;
  sequence.boundary = sequence.size();
}

SequenceId Decoder::submit(std::vector<Token> prompt, SegmentOptions options, RandomKey key,
                           std::int32_t reserve) {
  State& s = *state_;
  if (prompt.empty()) {
    throw Error(code::kInvalidArgument, "submit: the prompt has no tokens, expected one or more");
  }
  check_tokens("submit", prompt, s.token_limit);
  check_segment("submit", options, s.token_limit);
  check_reserve("submit", static_cast<std::int64_t>(prompt.size()), options.max_new_tokens, reserve,
                s.limits);
  auto sequence = std::make_unique<Sequence>();
  sequence->id = s.next_id;
  sequence->key = key;
  sequence->reserve = reserve;
  sequence->tokens = std::move(prompt);
  sequence->tokens.reserve(static_cast<std::size_t>(reserve));
  s.begin_segment(*sequence, std::move(options));
  Sequence& added = *s.sequences.emplace(s.next_id, std::move(sequence)).first->second;
  s.scheduler.enqueue(added);
  return s.next_id++;
}

std::vector<SequenceId> Decoder::fork(SequenceId id, const std::vector<RandomKey>& keys,
                                      SegmentOptions options, std::int32_t reserve) {
  State& s = *state_;
  Sequence& parent = s.find("fork", id);
  check_segment("fork", options, s.token_limit);
  if (reserve == 0) reserve = parent.reserve;
  check_reserve("fork", parent.boundary, options.max_new_tokens, reserve, s.limits);

  std::vector<std::unique_ptr<Sequence>> children;
  for (const RandomKey& key : keys) {
    auto child = std::make_unique<Sequence>();
    child->id = s.next_id + static_cast<SequenceId>(children.size());
    child->key = key;
    child->reserve = reserve;
    child->tokens.reserve(static_cast<std::size_t>(reserve));
    child->tokens.assign(parent.tokens.begin(), parent.tokens.begin() + parent.boundary);
    s.begin_segment(*child, options);
    children.push_back(std::move(child));
  }
  std::vector<SequenceId> ids;
  ids.reserve(children.size());
  s.sequences.reserve(s.sequences.size() + children.size());
  for (auto& child : children) {
    ids.push_back(s.next_id++);
    Sequence& added = *s.sequences.emplace(ids.back(), std::move(child)).first->second;
    s.scheduler.enqueue_fork(added, parent);
  }
  return ids;
}

void Decoder::extend(SequenceId id, const std::vector<Token>& tokens, SegmentOptions options) {
  State& s = *state_;
  Sequence& sequence = s.find("extend", id);
  if (sequence.phase != Phase::waiting) {
    throw Error(code::kInvalidArgument,
                "extend: sequence " + std::to_string(id) +
                    " is still decoding; extend it when it has reported, or "
                    "cancel it first");
  }
  check_tokens("extend", tokens, s.token_limit);
  check_segment("extend", options, s.token_limit);
  const std::int32_t before = sequence.size();
  if (tokens.size() > static_cast<std::size_t>(sequence.reserve - before)) {
    throw Error(code::kContextFull, "extend: sequence " + std::to_string(id) + " holds " +
                                        std::to_string(before) + " of its " +
                                        std::to_string(sequence.reserve) + " reserved tokens, " +
                                        std::to_string(tokens.size()) + " more do not fit");
  }
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());  // was reserved
  try {
    s.begin_segment(sequence, std::move(options));
  } catch (...) {
    sequence.tokens.resize(static_cast<std::size_t>(before));
    throw;
  }
  sequence.text_start = before;
  s.scheduler.enqueue(sequence);
}

void Decoder::cancel(SequenceId id) {
  Sequence& sequence = state_->find("cancel", id);
  if (sequence.phase != Phase::waiting) state_->finish(sequence, FinishReason::cancelled);
}

void Decoder::release(SequenceId id) {
  State& s = *state_;
  s.scheduler.release(s.find("release", id));
  s.sequences.erase(id);
  std::erase_if(s.results, [id](const SegmentResult& result) { return result.sequence == id; });
}

SegmentResult& Decoder::State::finish(Sequence& sequence, FinishReason reason) {
  SegmentResult& result = results.emplace_back();
  result.sequence = sequence.id;
  result.reason = reason;
  result.tokens.assign(sequence.tokens.begin() + sequence.boundary, sequence.tokens.end());
  result.log_probs = std::move(sequence.log_probs);
  const bool drew = sequence.generated() > 0;
  result.first_version = drew ? sequence.first_version : model->version();
  result.last_version = drew ? sequence.last_version : model->version();
  scheduler.withdraw(sequence);
  return result;
}

bool Decoder::idle() const {
  const State& s = *state_;
  return s.scheduler.running().empty() && s.scheduler.queued() == 0 && s.results.empty();
}

DecoderStats Decoder::stats() const {
  const State& s = *state_;
  const RowCounts& rows = s.scheduler.counts();
  const auto running = static_cast<std::int64_t>(s.scheduler.running().size());
  const std::int64_t queued = s.scheduler.queued();
  return {.prompt_tokens = rows.prompt,
          .shared_tokens = rows.shared,
          .repeated_tokens = rows.repeated,
          .generated_tokens = s.generated,
          .steps = s.steps,
          .pages_used = s.pool.used(),
          .pages_peak = s.pool.peak(),
          .pages_total = s.pool.total(),
          .running = running,
          .waiting = static_cast<std::int64_t>(s.sequences.size()) - running - queued,
          .queued = queued};
}

std::size_t Decoder::bytes() const {
  const State& s = *state_;
  std::size_t total = s.pool.bytes() + static_cast<std::size_t>(s.logits->size()) * sizeof(float) +
                      s.bytes.bytes.size() + s.bytes.offsets.size() * sizeof(std::uint32_t);
  for (const auto& [id, sequence] : s.sequences) {
    total += sizeof(Sequence) + sequence->tokens.capacity() * sizeof(Token) +
             sequence->log_probs.capacity() * sizeof(float) +
             sequence->pages.capacity() * sizeof(Page);
  }
  return total;
}

}  // namespace hindsearch
