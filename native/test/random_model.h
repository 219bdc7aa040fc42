#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "native/model/model.h"

namespace hindsearch::testing {

// Small configs that between them use every switch; no size is a multiple of a vector's.
inline ModelConfig small_config() {
  ModelConfig c;
  c.hidden = 24;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 10;
  c.intermediate = 21;
  c.vocabulary = 41;
  c.token_limit = 37;
  c.max_positions = 300;
  return c;
}
inline std::vector<ModelConfig> small_configs() {
  ModelConfig qwen2 = small_config();  // tied, biases
  qwen2.tied = qwen2.qkv_bias = true;
  ModelConfig qwen3 = small_config();  // tied, q/k norm, one key/value head
  qwen3.tied = qwen3.qk_norm = true;
  qwen3.kv_heads = 1;
  ModelConfig llama = small_config();  // untied, scaled rope, one query head per key/value head
  llama.kv_heads = 4;
  llama.rope_scaling = {8, 1, 4, 16};
  ModelConfig all = small_config();
  all.qkv_bias = all.qk_norm = true;
  all.rope_scaling = {4, 1, 4, 24};
  return {qwen2, qwen3, llama, all};
}

// A few large optimizer steps away from its initialisation, so that biases and norms have values
// that matter.
inline std::shared_ptr<Model> random_model(const ModelConfig& config, ComputeType compute,
                                           std::uint64_t seed = 1) {
  auto model = Model::initialize(config, compute, seed, 0.3f);
  PackedSequences packed;
  Objective objective;
  objective.policy.weight = 0;
  objective.cross_entropy.weight = 1;
  for (std::int32_t t = 0; t < 12; ++t) {
    packed.tokens.push_back(t * 3 % config.token_limit);
    objective.weights.push_back(t > 0);
  }
  packed.offsets = {0, 12};
  OptimizerOptions options;
  options.learning_rate = 0.05f;
  for (int i = 0; i < 3; ++i) {
    model->forward_backward(packed, objective, {});
    model->step(options);
  }
  return model;
}

inline std::vector<Token> random_tokens(std::mt19937& random, std::size_t n, std::int32_t limit) {
  std::vector<Token> tokens(n);
  for (Token& token : tokens)
    token = static_cast<Token>(random() % static_cast<std::uint32_t>(limit));
  return tokens;
}

}  // namespace hindsearch::testing
