// A decoder: weights, forward, backward, optimizer state.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/batch.h"
#include "native/model/cancel.h"
#include "native/model/config.h"
#include "native/model/parameters.h"
#include "native/model/tensor_file.h"
#include "native/objective/objective.h"
#include "native/optim/adamw.h"

namespace hindsearch {

// Which of the equal-shaped arenas: master weights or AdamW moments.
enum class Arena { weights, first_moments, second_moments };
struct TensorSink {
  std::string name;
  StorageType type = StorageType::f32;
  Arena arena = Arena::weights;
};

struct ScoreOptions {
  float temperature = 1;            // that of the sampler
  std::vector<std::int64_t> first;  // per sequence: first token index to score, 1 .. its length
  bool entropy = true;
  std::int64_t micro_batch_tokens = 4096;  // sequences are never cut; a longer one goes alone
  // Per token of the batch, from `first` on: 0 leaves it out. Empty: none is left out. Rows behind
  // the last token of a sequence that is wanted are not run, and the head sees wanted tokens alone.
  std::vector<std::uint8_t> mask = {};
};
struct ScoreResult {             // aligned with PackedSequences::tokens; 0 where not scored
  std::vector<float> log_probs;  // log p(token t | tokens before it)
  std::vector<float> entropies;  // nats, of the distribution that token was predicted with; empty
                                 // if not asked for
};

struct TrainOptions {
  float temperature = 1;                   // that of the sampler
  bool checkpoint_activations = true;      // keep one tensor a layer, recompute the rest
  std::int64_t micro_batch_tokens = 4096;  // sequences are never cut; a longer one goes alone
};

// Not thread-safe: a model and its snapshots are called from the engine's thread. Sizes, names and
// tokens that do not fit are Error(INVALID_ARGUMENT) in every call, lack of memory is
// Error(OUT_OF_MEMORY).
class Model {
 public:
  // Weights drawn from N(0, standard_deviation^2) (norms 1, biases 0) by a counter-based generator:
  // the same for the same seed, whatever the number of threads.
  static std::shared_ptr<Model> initialize(const ModelConfig&, ComputeType, std::uint64_t seed,
                                           float standard_deviation = 0.02f);
  // Throws Error(INVALID_CHECKPOINT) unless the sources are the model's parameters, each once;
  // Error(IO); Error(ABORTED).
  static std::shared_ptr<Model> load(const ModelConfig&, ComputeType,
                                     const std::vector<TensorSource>&, const CancelFlag* = nullptr);
  ~Model();

  const ModelConfig& config() const;
  const ParameterLayout& layout() const;
  ComputeType compute() const;
  Backend& backend() const;
  bool frozen() const;
  std::uint64_t version() const;  // grows with every change of the weights
  // Memory held: weights, packed copies, gradients, moments, rotary tables, a decoder's buffers.
  // What a snapshot still shares with its model is counted in both.
  std::size_t bytes() const;

  // A frozen model with the weights of now, that cannot be trained. Shares memory with this model
  // until this model's next step.
  std::shared_ptr<Model> snapshot() const;

  // Throws Error(NON_FINITE) naming sequence and position (the index of the token whose log-prob is
  // not a number); Error(ABORTED).
  ScoreResult score(const PackedSequences&, const ScoreOptions&, const CancelFlag* = nullptr);

  // Adds dL/dparameters to the gradients. Values are of the whole batch, whatever the
  // micro-batches. Throws Error(NON_FINITE) as `score` does, for scored tokens, and Error(ABORTED);
  // what fails half way leaves all gradients zero.
  ObjectiveResult forward_backward(const PackedSequences&, const Objective&, const TrainOptions&,
                                   const CancelFlag* = nullptr);
  double gradient_norm();
  void zero_gradients();
  // One AdamW update with the gradients added up since the last, which are zeroed. A norm that is
  // not finite skips the update.
  OptimizerResult step(const OptimizerOptions&);

  // Decoder's entry: runs the new rows of `sequences` (tokens and positions are packed like the
  // rows), writes their keys and values to `pages`, and leaves the logits of `logit_rows` (row
  // numbers) in logits [logit_rows.size(), V], on the device; V = config().token_limit. `logits`
  // has room for backend().padded_rows(sequences.size()) rows.
  void forward_cached(std::span<const Token> tokens, std::span<const std::int32_t> positions,
                      std::span<const SequenceRows> sequences, const KvPages& pages,
                      std::span<const std::int32_t> logit_rows, float* logits);

  // Reads one tensor, as f32 (for tests and tools).
  std::vector<float> weight(const std::string& name) const;
  std::vector<float> gradient(const std::string& name) const;
  std::vector<float> logits(const PackedSequences&);  // [R, V], small inputs only

  // Replaces an arena (moments: for resuming), all of it or, on an error, nothing. Errors as
  // `load`.
  void load_arena(Arena, const std::vector<TensorSource>&, const CancelFlag* = nullptr);
  // Writes 8 + header.size() + data bytes to `path`, and syncs them. For every arena that occurs,
  // the names must cover every parameter exactly once. Moments before the first step are zeros.
  // Leaves no file behind when it throws: Error(IO), Error(ABORTED), or Error(INVALID_ARGUMENT),
  // also for a weight too large for f16.
  void save(const std::string& path, const std::string& header, const std::vector<TensorSink>&,
            const CancelFlag* = nullptr) const;
  std::int64_t optimizer_step() const;
  void set_optimizer_step(std::int64_t);

 private:
  struct State;
  explicit Model(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace hindsearch
