#include "native/model/parameters.h"

#include <utility>

namespace hindsearch {

ParameterLayout::ParameterLayout(const ModelConfig& config) {
  config.validate();
  embedding_ = add("model.embed_tokens.weight", {config.vocabulary, config.hidden});
  for (std::int32_t l = 0; l < config.layers; ++l) add_layer(config, l);
  final_norm_ = add("model.norm.weight", {config.hidden});
  head_ = config.tied ? embedding_ : add("lm_head.weight", {config.vocabulary, config.hidden});
}

void ParameterLayout::add_layer(const ModelConfig& config, std::int32_t l) {
  const std::string prefix = "model.layers." + std::to_string(l) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t key = std::int64_t{config.kv_heads} * config.head_dim;

  LayerOffsets at;
  at.input_norm = add(prefix + "input_layernorm.weight", {hidden});
  at.qkv = add(attention + "q_proj.weight", {query, hidden});
  add(attention + "k_proj.weight", {key, hidden});
  add(attention + "v_proj.weight", {key, hidden});
  if (config.qkv_bias) {
    at.qkv_bias = add(attention + "q_proj.bias", {query});
    add(attention + "k_proj.bias", {key});
    add(attention + "v_proj.bias", {key});
  }
  if (config.qk_norm) {
    at.q_norm = add(attention + "q_norm.weight", {config.head_dim});
    at.k_norm = add(attention + "k_norm.weight", {config.head_dim});
  }
  at.o = add(attention + "o_proj.weight", {hidden, query});
  at.post_norm = add(prefix + "post_attention_layernorm.weight", {hidden});
  at.gate_up = add(prefix + "mlp.gate_proj.weight", {config.intermediate, hidden});
  add(prefix + "mlp.up_proj.weight", {config.intermediate, hidden});
  at.down = add(prefix + "mlp.down_proj.weight", {hidden, config.intermediate});
  layers_.push_back(at);
}

std::int64_t ParameterLayout::add(std::string name, std::vector<std::int64_t> shape) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) size *= extent;
  const std::int64_t offset = size_;
  by_name_.emplace(name, parameters_.size());
  parameters_.push_back({std::move(name), std::move(shape), offset, size});
  size_ += size;
  return offset;
}

const Parameter* ParameterLayout::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &parameters_[found->second];
}

}  // namespace hindsearch
