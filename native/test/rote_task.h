#pragma once

#include <memory>
#include <vector>

#include "native/test/checkpoint.h"
#include "native/test/random_model.h"

namespace hindsearch::testing {

// A model with every switch on.
inline std::shared_ptr<Model> full_model() {
  return random_model(small_configs().back(), ComputeType::f32);
}

// Three sequences to learn by heart: cross entropy over everything that is predicted.
struct RoteTask {
  PackedSequences packed = pack({{1, 2, 3, 4, 5, 6}, {7, 8, 9}, {10, 11, 12, 13}});
  Objective objective;
  RoteTask() {
    objective.policy.weight = 0;
    objective.cross_entropy.weight = 1;
    objective.weights.assign(packed.tokens.size(), 1);
    for (std::size_t b = 0; b + 1 < packed.offsets.size(); ++b) {
      objective.weights[static_cast<std::size_t>(packed.offsets[b])] = 0;
    }
  }
};

inline OptimizerOptions fast_options() {
  OptimizerOptions options;
  options.learning_rate = 1e-2f;
  return options;
}

inline std::vector<float> all_weights(const Model& model) {
  std::vector<float> all;
  for (const Parameter& parameter : model.layout().parameters()) {
    const std::vector<float> weights = model.weight(parameter.name);
    all.insert(all.end(), weights.begin(), weights.end());
  }
  return all;
}

}  // namespace hindsearch::testing
