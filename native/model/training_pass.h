// Forward and backward over one micro-batch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "native/model/batch.h"
#include "native/model/cancel.h"
#include "native/model/network.h"
#include "native/model/slab.h"

namespace hindsearch {

// Holds the inputs of all layers, and the tapes of all or, with `checkpoint_activations`, of one,
// which backward then fills again layer by layer.
class TrainingPass {
 public:
  TrainingPass(const Network& network, const Batch& batch, bool checkpoint_activations);

  // The output [R, C] of the last layer. Throws Error(ABORTED), as backward does.
  const float* forward(const CancelFlag* cancel);
  // dL/d(output of the last layer), [R, C], zero at first.
  float* d_output() { return d_x_; }
  // Adds dL/dparameters. Uses d_output up.
  void backward(float* gradients, const CancelFlag* cancel);

 private:
  PassRows pass() const { return {*index_, pages_}; }
  LayerTape& tape(std::int32_t l) { return *tapes_[checkpoint_ ? 0 : static_cast<std::size_t>(l)]; }

  const Network& network_;
  const bool checkpoint_;
  std::vector<float*> inputs_;  // [R, C] of every layer, and the output of the last
  float* d_x_ = nullptr;
  Slab slab_;
  std::vector<std::unique_ptr<LayerTape>> tapes_;
  LayerScratch scratch_;
  std::unique_ptr<PassIndex> index_;
  KvPages pages_;
};

}  // namespace hindsearch
