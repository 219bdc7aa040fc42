#include "native/model/parameters.h"

#include <utility>

namespace hindsearch {
namespace {

std::int64_t unpacked_floats(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden, head_dim = config.head_dim;
  const std::int64_t bias = (config.heads + std::int64_t{2} * config.kv_heads) * head_dim;
  const std::int64_t layer =
      2 * hidden + (config.qkv_bias ? bias : 0) + (config.qk_norm ? 2 * head_dim : 0);
  return (config.tied ? 1 : 2) * (config.vocabulary * hidden) + config.layers * layer + hidden;
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelConfig& config) {
  config.validate();
  unpacked_size_ = matrices_end_ = unpacked_floats(config);
  const std::int64_t vocabulary = config.vocabulary, hidden = config.hidden;
  embedding_ = add("model.embed_tokens.weight", {vocabulary, hidden}, true);
  for (std::int32_t l = 0; l < config.layers; ++l) add_layer(config, l);
  final_norm_ = add_vector("model.norm.weight", hidden);
  head_ = config.tied ? embedding_ : add("lm_head.weight", {vocabulary, hidden}, true);
}

void ParameterLayout::add_layer(const ModelConfig& config, std::int32_t l) {
  const std::string prefix = "model.layers." + std::to_string(l) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t key = std::int64_t{config.kv_heads} * config.head_dim;

  LayerOffsets at;
  at.input_norm = add_vector(prefix + "input_layernorm.weight", hidden);
  at.qkv = add_matrix(attention + "q_proj.weight", query, hidden);
  add_matrix(attention + "k_proj.weight", key, hidden);
  add_matrix(attention + "v_proj.weight", key, hidden);
  if (config.qkv_bias) {
    at.qkv_bias = add_vector(attention + "q_proj.bias", query);
    add_vector(attention + "k_proj.bias", key);
    add_vector(attention + "v_proj.bias", key);
  }
  if (config.qk_norm) {
    at.q_norm = add_vector(attention + "q_norm.weight", config.head_dim);
    at.k_norm = add_vector(attention + "k_norm.weight", config.head_dim);
  }
  at.o = add_matrix(attention + "o_proj.weight", hidden, query);
  at.post_norm = add_vector(prefix + "post_attention_layernorm.weight", hidden);
  at.gate_up = add_matrix(prefix + "mlp.gate_proj.weight", config.intermediate, hidden);
  add_matrix(prefix + "mlp.up_proj.weight", config.intermediate, hidden);
  at.down = add_matrix(prefix + "mlp.down_proj.weight", hidden, config.intermediate);
  layers_.push_back(at);
}

std::int64_t ParameterLayout::add(std::string name, std::vector<std::int64_t> shape,
                                  bool unpacked) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) size *= extent;
  std::int64_t& end = unpacked ? unpacked_end_ : matrices_end_;
  const std::int64_t offset = end;
  by_name_.emplace(name, parameters_.size());
  parameters_.push_back({std::move(name), std::move(shape), offset, size});
  end += size;
  return offset;
}

const Parameter* ParameterLayout::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &parameters_[found->second];
}

}  // namespace hindsearch
