// Names, shapes and places of a model's parameters in one contiguous arena.
//
// q, k and v (and gate and up) of a layer lie next to each other, so that they are one matrix
// [q + k + v, hidden] without a copy. Gradients and moments use the same layout, and the
// optimizer walks the arena in one pass.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "native/model/config.h"

namespace hindsearch {

struct Parameter {
  std::string name;  // Hugging Face key, e.g. "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // [out, in] or [width]
  std::int64_t offset;              // floats from the start of the arena
  std::int64_t size;                // floats
};

// Of the first of the parameters that lie together: qkv is the place of q_proj.weight. -1: the
// model has no such parameter.
struct LayerOffsets {
  std::int64_t input_norm = -1, qkv = -1, qkv_bias = -1, q_norm = -1, k_norm = -1, o = -1,
               post_norm = -1, gate_up = -1, down = -1;
};

class ParameterLayout {
 public:
  // Throws Error(INVALID_ARGUMENT) for an invalid config.
  explicit ParameterLayout(const ModelConfig& config);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter* find(const std::string& name) const;  // null: no such parameter
  std::int64_t size() const { return size_; }
  std::int64_t embedding() const { return embedding_; }
  std::int64_t final_norm() const { return final_norm_; }
  std::int64_t head() const { return head_; }  // == embedding() when tied
  const LayerOffsets& layer(std::int32_t l) const { return layers_[static_cast<std::size_t>(l)]; }

 private:
  std::int64_t add(std::string name, std::vector<std::int64_t> shape);  // its offset
  void add_layer(const ModelConfig& config, std::int32_t l);

  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<LayerOffsets> layers_;
  std::int64_t size_ = 0, embedding_ = 0, final_norm_ = 0, head_ = 0;
};

}  // namespace hindsearch
