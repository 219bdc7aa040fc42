// Names, shapes and places of a model's parameters in one contiguous arena.
//
// q, k and v (and gate and up) of a layer lie next to each other, so that they are one matrix
// [q + k + v, hidden] without a copy. Gradients and moments use the same layout, and the
// optimizer walks the arena in one pass. First come the parameters that a forward pass reads from the
// arena itself: the embedding, norms and biases (and the head, whose packed form lacks the rows beyond
// the tokenizer's vocabulary); behind them those that it reads packed.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
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
  std::int64_t size() const { return matrices_end_; }
  // Floats up to the first matrix that is read packed alone.
  std::int64_t unpacked_size() const { return unpacked_size_; }
  std::int64_t embedding() const { return embedding_; }
  std::int64_t final_norm() const { return final_norm_; }
  std::int64_t head() const { return head_; }  // == embedding() when tied
  const LayerOffsets& layer(std::int32_t l) const { return layers_[static_cast<std::size_t>(l)]; }

 private:
  // Next to the one of its kind before it; returns its offset.
  std::int64_t add(std::string name, std::vector<std::int64_t> shape, bool unpacked);
  std::int64_t add_vector(std::string name, std::int64_t width) {
    return add(std::move(name), {width}, true);
  }
  std::int64_t add_matrix(std::string name, std::int64_t rows, std::int64_t columns) {
    return add(std::move(name), {rows, columns}, false);
  }
  void add_layer(const ModelConfig& config, std::int32_t l);

  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<LayerOffsets> layers_;
  std::int64_t unpacked_end_ = 0, unpacked_size_ = 0, matrices_end_ = 0;
  std::int64_t embedding_ = 0, final_norm_ = 0, head_ = 0;
};

}  // namespace hindsearch
