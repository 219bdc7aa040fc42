// A decoder: weights, forward, backward, optimizer state.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/config.h"
#include "native/model/parameters.h"
#include "native/objective/objective.h"

namespace hindsearch {

// Set by another thread to end a long call; the call then throws Error(ABORTED) and leaves weights,
// gradients and optimizer state as they were before it (gradients: zeroed).
using CancelFlag = std::atomic<bool>;

// B sequences packed one after the other: sequence b is tokens[offsets[b] .. offsets[b + 1]).
struct PackedSequences {
  std::vector<Token> tokens;
  std::vector<std::int64_t> offsets;  // B + 1, from 0
};

// Where the bytes of one tensor lie. The header of the file has been parsed and checked elsewhere;
// here only that the bytes exist, and fit the parameter, is checked again.
enum class StorageType { f32, f16, bf16 };
struct TensorSource {
  std::string name;
  std::string path;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
  StorageType type = StorageType::f32;
  std::vector<std::int64_t> shape;
};
// Which of the equal-shaped arenas: master weights or AdamW moments.
enum class Arena { weights, first_moments, second_moments };
struct TensorSink {
  std::string name;
  StorageType type = StorageType::f32;
  Arena arena = Arena::weights;
};

struct ScoreOptions {
  float temperature = 1;
  std::vector<std::int64_t> first;  // per sequence: first token index to score, >= 1
  bool entropy = true;
  std::int64_t micro_batch_tokens = 8192;
};
struct ScoreResult {          // aligned with PackedSequences::tokens; 0 where not scored
  std::vector<float> log_probs;  // log p(token t | tokens before it)
  std::vector<float> entropies;  // nats, of the distribution that token was predicted with
};

struct TrainOptions {
  float temperature = 1;
  bool checkpoint_activations = true;      // keep one tensor a layer, recompute the rest
  std::int64_t micro_batch_tokens = 8192;  // sequences are never cut; a longer one goes alone
};

struct OptimizerOptions {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.01f;
  float max_gradient_norm = 1;  // 0: no clipping
};
struct OptimizerResult {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite: weights and moments untouched
  std::int64_t step = 0;     // updates made so far
};

class Model {
 public:
  // Weights drawn from N(0, 0.02^2) (norms 1, biases 0) by a counter-based generator: the same for
  // the same seed on every machine and thread count.
  static std::shared_ptr<Model> initialize(const ModelConfig&, ComputeType, std::uint64_t seed,
                                           float standard_deviation = 0.02f);
  static std::shared_ptr<Model> load(const ModelConfig&, ComputeType,
                                     const std::vector<TensorSource>&, const CancelFlag* = nullptr);
  ~Model();

  const ModelConfig& config() const;
  const ParameterLayout& layout() const;
  ComputeType compute() const;
  Backend& backend() const;
  bool frozen() const;
  std::uint64_t version() const;  // grows with every change of the weights
  std::size_t bytes() const;      // memory held: weights, packed copies, gradients, moments

  std::shared_ptr<Model> snapshot() const;  // a frozen copy with the same weights

  // Throws Error(NON_FINITE) naming sequence and position.
  ScoreResult score(const PackedSequences&, const ScoreOptions&, const CancelFlag* = nullptr);

  // Adds dL/dparameters to the gradients. Values are of the whole batch, whatever the micro-batches.
  ObjectiveResult forward_backward(const PackedSequences&, const Objective&, const TrainOptions&,
                                   const CancelFlag* = nullptr);
  double gradient_norm();
  void zero_gradients();
  OptimizerResult step(const OptimizerOptions&);

  // Decoder's entry: runs the new rows of `sequences` (tokens and positions are packed like the rows),
  // writes their keys and values to `pages`, and leaves the logits of `logit_rows` (row numbers) in
  // logits [logit_rows.size(), V]; V = config().token_limit.
  void forward_cached(std::span<const Token> tokens, std::span<const std::int32_t> positions,
                      std::span<const SequenceRows> sequences, const KvPages& pages,
                      std::span<const std::int64_t> logit_rows, float* logits);

  // Reads one tensor, as f32 (for tests and tools); arena gradients through `gradient`.
  std::vector<float> weight(const std::string& name) const;
  std::vector<float> gradient(const std::string& name) const;
  std::vector<float> logits(const PackedSequences&);  // [R, V], small inputs only

  // Loads into an arena (moments: for resuming) or writes 8 + header.size() + data bytes to `path`,
  // syncing it. Names must cover every parameter exactly once.
  void load_arena(Arena, const std::vector<TensorSource>&);
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
