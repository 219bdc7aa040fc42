// What a Decoder holds. The calls are in decoder.cc, what a step does in decoder_step.cc.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "native/rollout/decoder.h"
#include "native/rollout/decoder_arguments.h"
#include "native/rollout/page_pool.h"
#include "native/rollout/scheduler.h"
#include "native/rollout/sequence.h"

namespace hindsearch {

struct Decoder::State {
  State(std::shared_ptr<Model> m, const DecoderOptions& options, TokenBytes b);

  // Throws Error(INVALID_ARGUMENT).
  Sequence& find(const char* where, SequenceId id);
  void begin_segment(Sequence& sequence, SegmentOptions options);
  SegmentResult& finish(Sequence& sequence, FinishReason reason);

  // The parts of a step, in their order.
  void notice_new_weights();
  bool run_rows();
  void sample();
  void finish_text();
  void append(Sequence& sequence, Token token, float log_prob);

  const std::shared_ptr<Model> model;
  const TokenBytes bytes;
  const Token token_limit;
  PagePool pool;
  const SequenceLimits limits;
  Scheduler scheduler;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences;
  SequenceId next_id = 1;
  std::uint64_t version;  // of the weights that filled the cache
  std::int64_t steps = 0, generated = 0;
  std::vector<SegmentResult> results;  // not yet reported

  // Buffers of one step, reused.
  DecodeBatch batch;
  std::unique_ptr<Buffer> logits;  // [padded_rows(max_batch), token_limit]
  std::vector<Sampling> sampling;  // [sampled] each
  std::vector<double> uniforms;
  std::vector<Token> drawn;
  std::vector<float> log_probs;
};

}  // namespace hindsearch
