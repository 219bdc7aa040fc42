// Forward and backward over micro-batches.
#include <memory>
#include <vector>

#include "native/model/model.h"
#include "native/model/state.h"

namespace hindsearch {
namespace {

// One micro-batch: inputs of all layers, and the tapes of one or of all.
class TrainingPass {
 public:
  TrainingPass(const Network& network, const Batch& batch, bool checkpoint_activations)
      : network_(network), checkpoint_(checkpoint_activations) {
    const ModelConfig& config = network.config;
    const std::int64_t size = batch.rows() * config.hidden;
    inputs_.resize(static_cast<std::size_t>(config.layers) + 1);
    for (float*& input : inputs_) slab_.add(input, size);
    slab_.add(d_x_, size);
    float* pages;
    slab_.add(pages, KvPages{nullptr, 1, config.kv_heads, config.head_dim}.page_floats() *
                         batch.page_count());
    slab_.allocate(network.backend);
    for (std::int32_t l = 0; l < (checkpoint_ ? 1 : config.layers); ++l) {
      tapes_.push_back(
          std::make_unique<LayerTape>(network, batch.rows(), LayerTape::Purpose::backward));
    }
    pass_ = {batch.tokens, batch.positions, batch.sequences,
             KvPages{pages, 1, config.kv_heads, config.head_dim}};
  }

  // The output [R, C] of the last layer.
  const float* forward(const CancelFlag* cancel) {
    embed_forward(network_, pass_, inputs_[0]);
    for (std::int32_t l = 0; l < network_.config.layers; ++l) {
      check_cancelled(cancel, "forward_backward");
      const auto i = static_cast<std::size_t>(l);
      layer_forward(network_, pass_, l, inputs_[i], inputs_[i + 1], tape(l));
    }
    return inputs_.back();
  }

  // dL/d(output of the last layer), [R, C], zero at first.
  float* d_output() { return d_x_; }

  void backward(float* gradients, const CancelFlag* cancel) {
    LayerGradients scratch(network_, pass_.rows());
    const std::int32_t last = network_.config.layers - 1;
    for (std::int32_t l = last; l >= 0; --l) {
      check_cancelled(cancel, "forward_backward");
      const float* x = inputs_[static_cast<std::size_t>(l)];
      // After forward the one tape still holds the last layer.
      if (checkpoint_ && l != last) layer_recompute(network_, pass_, l, x, tape(l));
      layer_backward(network_, pass_, l, x, tape(l), scratch, d_x_, gradients);
    }
    embed_backward(network_, pass_, d_x_, gradients);
  }

 private:
  LayerTape& tape(std::int32_t l) { return *tapes_[checkpoint_ ? 0 : static_cast<std::size_t>(l)]; }

  const Network& network_;
  const bool checkpoint_;
  std::vector<float*> inputs_;  // [R, C] of every layer, and the output of the last
  float* d_x_ = nullptr;
  Slab slab_;
  std::vector<std::unique_ptr<LayerTape>> tapes_;
  PassRows pass_;
};

// The tokens of a micro-batch that the objective looks at.
struct ScoredTokens {
  ScoredRows rows;
  std::vector<SequenceToken> places;
};

ScoredTokens scored_tokens(const PackedSequences& packed, const Batch& batch,
                           const ObjectiveSum& sum) {
  ScoredTokens scored;
  for (std::int64_t b = batch.range.begin; b < batch.range.end; ++b) {
    const std::int64_t begin = packed.offsets[static_cast<std::size_t>(b)];
    for (std::int64_t t = begin + 1; t < packed.offsets[static_cast<std::size_t>(b + 1)]; ++t) {
      if (!sum.scored(t)) continue;
      scored.rows.add(batch.row_of(b, t - begin - 1), packed.tokens[static_cast<std::size_t>(t)]);
      scored.places.push_back({b, t - begin, t});
    }
  }
  return scored;
}

}  // namespace

ObjectiveResult Model::forward_backward(const PackedSequences& packed, const Objective& objective,
                                        const TrainOptions& options, const CancelFlag* cancel) {
  State& s = *state_;
  s.require_trainable("forward_backward");
  validate(packed, s.config, "forward_backward");
  check_temperature(options.temperature, "forward_backward");
  const std::vector<SequenceRange> ranges = micro_batches(packed, options.micro_batch_tokens);
  ObjectiveSum sum(objective, packed.offsets);
  std::vector<float> log_probs(packed.tokens.size());
  float* gradients = s.own_gradients();
  try {
    for (const SequenceRange& range : ranges) {
      check_cancelled(cancel, "forward_backward");
      const Batch batch(packed, range, RowsWanted::all_but_last);
      const ScoredTokens scored = scored_tokens(packed, batch, sum);
      if (scored.places.empty()) continue;
      const Network network = s.network(batch.longest());
      TrainingPass pass(network, batch, options.checkpoint_activations);
      const float* x = pass.forward(cancel);
      const HeadScores scores = head_forward(network, x, scored.rows, options.temperature, false);
      for (std::size_t i = 0; i < scored.places.size(); ++i) {
        check_log_prob(scores.log_probs[i], "forward_backward", scored.places[i].sequence,
                       scored.places[i].position);
      }
      std::vector<float> g;
      for (std::size_t i = 0; i < scored.places.size(); ++i) {
        const std::int64_t t = scored.places[i].token;
        log_probs[static_cast<std::size_t>(t)] = scores.log_probs[i];
        g.push_back(static_cast<float>(sum.add(t, scores.log_probs[i])));
      }
      if (head_backward(network, x, scored.rows, options.temperature, scores.log_sums, g,
                        pass.d_output(), gradients)) {
        pass.backward(gradients, cancel);
      }
    }
  } catch (...) {
    zero_gradients();
    throw;
  }
  ObjectiveResult result = sum.result();
  result.log_probs = std::move(log_probs);
  return result;
}

}  // namespace hindsearch
