// The objective's gradient over micro-batches.
#include <vector>

#include "native/backend/temperature.h"
#include "native/model/inference_pass.h"
#include "native/model/model.h"
#include "native/model/scored_tokens.h"
#include "native/model/state.h"
#include "native/model/training_pass.h"

namespace hindsearch {
namespace {

// What is run of the sequences with a scored token: up to the row that predicts the last of them.
struct Runs {
  std::vector<Prefix> training;  // some token may have a gradient
  std::vector<Prefix> scoring;   // none has: a group of equal rewards, say
};

Runs runs(const PackedSequences& packed, const ObjectiveSum& sum) {
  Runs result;
  for (std::size_t b = 0; b + 1 < packed.offsets.size(); ++b) {
    std::int64_t rows = 0;
    bool gradient = false;
    for (std::int64_t t = packed.offsets[b]; t < packed.offsets[b + 1]; ++t) {
      if (!sum.scored(t)) continue;
      rows = t - packed.offsets[b];
      gradient = gradient || sum.has_gradient(t);
    }
    if (rows == 0) continue;
    (gradient ? result.training : result.scoring)
        .push_back({static_cast<std::int64_t>(b), static_cast<std::int32_t>(rows)});
  }
  return result;
}

}  // namespace

ObjectiveResult Model::forward_backward(const PackedSequences& packed, const Objective& objective,
                                        const TrainOptions& options, const CancelFlag* cancel) {
  constexpr const char* kCall = "forward_backward";
  State& s = *state_;
  s.require_trainable(kCall);
  validate(packed, s.config, kCall);
  check_temperature(kCall, options.temperature, false);
  ObjectiveSum sum(objective, packed.offsets);
  std::vector<float> log_probs(packed.tokens.size());
  // Enters the tokens and returns their dL/dlogprob.
  const auto enter = [&](const ScoredTokens& scored, const HeadScores& scores) {
    std::vector<float> g;
    g.reserve(scored.places.size());
    for (std::size_t i = 0; i < scored.places.size(); ++i) {
      const std::int64_t t = scored.places[i].token;
      log_probs[static_cast<std::size_t>(t)] = scores.log_probs[i];
      g.push_back(static_cast<float>(sum.add(t, scores.log_probs[i])));
    }
    return g;
  };
  const auto scored_of = [&](const Batch& batch) {
    return ScoredTokens(packed, batch,
                        [&](const SequenceToken& place) { return sum.scored(place.token); });
  };
  const Runs run = runs(packed, sum);
  const auto scoring = micro_batches(run.scoring, options.micro_batch_tokens);
  const auto training = micro_batches(run.training, options.micro_batch_tokens);
  try {
    for (const std::span<const Prefix> part : scoring) {
      const Batch batch(packed, part);
      const ScoredTokens scored = scored_of(batch);
      const Network network = s.network(batch.longest());
      const InferencePass pass(network, batch, kCall, cancel);
      enter(scored,
            score_tokens(network, pass.x(), scored, options.temperature, false, kCall, cancel));
    }
    for (const std::span<const Prefix> part : training) {
      const Batch batch(packed, part);
      const ScoredTokens scored = scored_of(batch);
      const Network network = s.network(batch.longest());
      TrainingPass pass(network, batch, options.checkpoint_activations);
      const float* x = pass.forward(cancel);
      const HeadScores scores =
          score_tokens(network, x, scored, options.temperature, false, kCall, cancel);
      float* gradients = s.own_gradients();
      if (head_backward(network, x, scored.rows, options.temperature, scores.log_sums,
                        enter(scored, scores), pass.d_output(), gradients, kCall, cancel)) {
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
