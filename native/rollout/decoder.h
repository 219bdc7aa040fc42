// Continuous batching over one model with a paged cache.
//
// A sequence is text of the caller (prompt, later tool results) and text of the model in turns. It
// decodes until it stops, then waits - costing nothing but its pages - until the caller extends,
// forks or releases it, while the others go on. A group shares the pages of its prompt.
//
// Stop rule: a segment ends with the first token whose bytes complete a stop string; that token is
// kept whole, and `overhang` says how many of its bytes lie behind the stop. If one token completes
// several stops, the one that ends first wins, among those the longest. Only bytes generated in
// this segment match. A token without bytes (a control token) is a wall no stop string crosses. An
// end token is kept too. One token may fulfil several conditions: a stop string goes before an end
// token, that before the length limit, that before the context limit.
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
  std::vector<std::uint32_t> offsets;  // ids + 1, from 0, never falling
};

// Key of the counter-based generator: the token at absolute position p of a sequence draws from
// philox4x32-10(key = seed, counter = (stream, p)).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

struct SegmentOptions {
  Sampling sampling;
  std::vector<std::string> stops;  // bytes, none empty
  std::vector<Token> end_tokens;
  std::int32_t max_new_tokens = 0;  // 0: only take in the text, then report `ready`
};

// ready      the text is in the cache, nothing was to be generated
// stop       a stop string is complete
// end_token  one of the end tokens came
// length     max_new_tokens were generated
// context    the sequence has reached its `reserve`
// cancelled  by cancel(); the tokens so far are kept
// failed     a number was not finite, see `error`; the sequence ends before that token
enum class FinishReason { ready, stop, end_token, length, context, cancelled, failed };

struct SegmentResult {
  SequenceId sequence = 0;
  FinishReason reason = FinishReason::ready;
  std::vector<Token> tokens;     // generated in this segment, the stopping one included
  std::vector<float> log_probs;  // of the distribution each was drawn from
  std::int32_t stop_index = -1;  // which stop string
  std::int32_t overhang = 0;     // bytes of the last token behind the stop string
  // Of the weights that drew the first and the last token; without tokens, those of now.
  std::uint64_t first_version = 0, last_version = 0;
  std::string error;  // reason failed: what was not finite, at which position
};

struct DecoderOptions {
  std::int64_t cache_tokens = 0;      // capacity of the page pool, rounded up to pages
  std::int32_t max_batch = 64;        // sequences decoded together
  std::int32_t prefill_tokens = 512;  // rows of text added to one step at most
};

struct DecoderStats {
  std::int64_t prompt_tokens = 0;  // rows of caller's text run through the model
  std::int64_t shared_tokens = 0;  // rows saved by sharing
  // Rows run again: the weights changed, or a segment without new text needed the logits of the
  // last row once more.
  std::int64_t repeated_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t steps = 0;                                        // passes through the model
  std::int64_t pages_used = 0, pages_peak = 0, pages_total = 0;  // used: held by some sequence
  std::int64_t running = 0;                                      // in the batch
  std::int64_t waiting = 0;                                      // for the caller
  std::int64_t queued = 0;  // for a place in the batch, or for pages
};

// Not thread-safe: everything is called from the engine's thread. A call that throws changes
// nothing. An unknown id is Error(INVALID_ARGUMENT) everywhere, as are options outside their range
// and tokens outside [0, token_limit).
class Decoder {
 public:
  // Throws Error(INVALID_ARGUMENT), Error(OUT_OF_MEMORY) when the cache cannot be allocated.
  Decoder(std::shared_ptr<Model>, DecoderOptions, TokenBytes);
  ~Decoder();

  // `reserve` is the most tokens this sequence will ever hold (all turns), at least prompt +
  // max_new_tokens. It enters the batch when that many are free, and they are its own until it is
  // released, so that an admitted sequence can always be finished. First come, first served: a
  // sequence that waits for the caller keeps its pages, so release what will not be extended.
  // Throws Error(CONTEXT_FULL) when `reserve` tokens, or prompt + max_new_tokens, can never fit the
  // model's positions or the cache.
  SequenceId submit(std::vector<Token> prompt, SegmentOptions, RandomKey, std::int32_t reserve);
  // One new sequence per key, from the end of the text the caller last supplied to `sequence`
  // (its prompt, or its last extension), sharing the full pages before it; only the last token of
  // that text is run again. In any state of the sequence, which may be cancelled or released at
  // once. `reserve` as in submit, 0: that of `sequence`.
  std::vector<SequenceId> fork(SequenceId, const std::vector<RandomKey>& keys, SegmentOptions,
                               std::int32_t reserve = 0);
  // Appends text (maybe none) to a waiting sequence and decodes on, up to its `reserve`.
  // Throws Error(CONTEXT_FULL) when the text itself does not fit.
  void extend(SequenceId, const std::vector<Token>& tokens, SegmentOptions);
  void cancel(SequenceId);   // running or queued -> reports `cancelled`; waiting: nothing
  void release(SequenceId);  // frees its pages; the id is gone, nothing more is reported of it

  // One pass over the batch; appends finished segments. False when there was nothing to do: all
  // that is left waits for the caller. What the model throws comes through, and changes nothing.
  bool step(std::vector<SegmentResult>& finished);
  // Nothing running, queued or unreported. An idle decoder has nothing to do; one that is not idle
  // and still has nothing to do is queued behind pages that waiting sequences hold.
  bool idle() const;
  DecoderStats stats() const;
  std::size_t bytes() const;  // memory held, cache and buffers

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hindsearch
