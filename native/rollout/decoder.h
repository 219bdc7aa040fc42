// Continuous batching over one model with a paged cache.
//
// A sequence is text of the caller (prompt, later tool results) and text of the model in turns.
// It decodes until it stops, then waits - costing nothing but its pages - until the caller extends,
// forks, cancels or releases it, while the others go on. A group shares the pages of its prompt.
//
// Stop rule: a segment ends with the first token whose bytes complete a stop string; that token is
// kept whole, and `overhang` says how many of its bytes lie behind the stop. If one token completes several stops, the
// one that ends first wins, among those the longest. Only bytes generated in this segment match. A
// token without bytes (a control token) is a wall no stop string crosses. An end-of-sequence token is
// kept too. The length limit is checked after the stop rule.
//
// A token depends on (weights, tokens before it, sampling, key, position) and nothing else: not on
// the batch, the schedule, or what is cached.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "native/model/model.h"

namespace hindsearch {

using SequenceId = std::int64_t;

// The bytes of every token id, for stop strings; control tokens have none.
struct TokenBytes {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> offsets;  // ids + 1
};

// Key of the counter-based generator: token at absolute position p of a sequence draws from
// philox4x32-10(key = seed, counter = (stream, p)).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

struct SegmentOptions {
  Sampling sampling;
  std::vector<std::string> stops;
  std::vector<Token> end_tokens;
  std::int32_t max_new_tokens = 0;   // of this segment; 0: only take in the text, then report `ready`
};

enum class FinishReason { ready, stop, end_token, length, context, cancelled, failed };

struct SegmentResult {
  SequenceId sequence = 0;
  FinishReason reason = FinishReason::ready;
  std::vector<Token> tokens;      // generated in this segment, the stopping one included
  std::vector<float> log_probs;   // of the distribution each was drawn from
  std::int32_t stop_index = -1;   // which stop string
  std::int32_t overhang = 0;      // bytes of the last token behind the stop string
  std::uint64_t first_version = 0, last_version = 0;  // of the weights
  std::string error;              // reason failed: what was not finite, at which position
};

struct DecoderOptions {
  std::int64_t cache_tokens = 0;     // capacity of the page pool, rounded up to pages
  std::int32_t max_batch = 64;       // sequences decoded together
  std::int32_t prefill_tokens = 512; // prompt rows added to one step at most
};

struct DecoderStats {
  std::int64_t prompt_tokens = 0;      // rows of caller's text run through the model
  std::int64_t shared_tokens = 0;      // rows saved by sharing
  std::int64_t generated_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t pages_used = 0, pages_peak = 0, pages_total = 0;
  std::int64_t running = 0, waiting = 0, queued = 0;
};

// Not thread-safe: everything is called from the engine's thread.
class Decoder {
 public:
  Decoder(std::shared_ptr<Model>, DecoderOptions, TokenBytes);
  ~Decoder();

  // Throws Error(INVALID_ARGUMENT), Error(CONTEXT_FULL) when prompt + max_new_tokens can never fit
  // model or cache. `reserve` is the most tokens this sequence will ever hold (all turns): admission
  // waits until that many are free, so that an admitted sequence can always be finished.
  SequenceId submit(std::vector<Token> prompt, SegmentOptions, RandomKey, std::int32_t reserve);
  // One new sequence per key, from the end of the text the caller last supplied to `sequence`
  // (its prompt, or its last extension), sharing the full pages before it.
  std::vector<SequenceId> fork(SequenceId, const std::vector<RandomKey>& keys, SegmentOptions);
  // Appends text to a waiting sequence and decodes on.
  void extend(SequenceId, const std::vector<Token>& tokens, SegmentOptions);
  void cancel(SequenceId);   // running or queued -> reports `cancelled`; waiting: nothing
  void release(SequenceId);  // frees its pages; the id is gone

  // One pass over the batch; appends finished segments. False when there is nothing to do.
  bool step(std::vector<SegmentResult>& finished);
  bool idle() const;
  DecoderStats stats() const;
  std::size_t bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hindsearch
