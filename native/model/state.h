// What a Model holds.
#pragma once

#include <memory>

#include "native/core/error.h"
#include "native/model/head.h"
#include "native/model/model.h"
#include "native/model/network.h"
#include "native/model/rope.h"
#include "native/model/weights.h"

namespace hindsearch {

// Buffers of the decoder's passes, kept from one token to the next.
struct DecodeWorkspace {
  std::int64_t rows = 0;  // capacity
  std::unique_ptr<LayerTape> tape;
  std::unique_ptr<LayerScratch> scratch;
  float* x = nullptr;         // [rows, C]
  float* gathered = nullptr;  // [rows, C] of the rows whose logits are wanted
  float* hidden = nullptr;    // the same, normed
  Slab slab;
  std::unique_ptr<PassIndex> index;  // last: what it has recorded uses the others
};

struct Model::State {
  State(const ModelConfig& model_config, std::shared_ptr<Backend> model_backend)
      : config(model_config),
        layout(model_config),
        backend(std::move(model_backend)),
        rope(model_config) {}

  ModelConfig config;
  ParameterLayout layout;
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Weights> weights;  // shared with snapshots
  bool frozen = false;
  std::uint64_t version = 1;
  std::unique_ptr<Buffer> gradients;  // null: all zero
  AdamW optimizer;
  RopeTable rope;
  std::unique_ptr<DecodeWorkspace> decode;

  // The network with rotary tables for that many positions.
  Network network(std::int32_t positions);
  void require_trainable(const char* call) const;
  const Parameter& parameter(const std::string& name) const;
  std::vector<float> download(const Buffer* arena, const Parameter& parameter) const;
  // Makes the weights this model's own before they change.
  void own_weights();
  // What was recorded of decoding used the old ones.
  void replace_weights(std::shared_ptr<Weights> own);
  DecodeWorkspace& decode_workspace(const Network& network, std::int64_t rows);
  // Parameters of the weights; those that a packed copy alone holds come from it.
  const Buffer* full_weights(std::unique_ptr<Buffer>& unpacked) const;
  float* own_gradients();
};

}  // namespace hindsearch
