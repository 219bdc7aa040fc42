// A pass without backward over one micro-batch, for scores and logits.
#pragma once

#include "native/model/batch.h"
#include "native/model/cancel.h"
#include "native/model/network.h"
#include "native/model/slab.h"

namespace hindsearch {

class InferencePass {
 public:
  // Runs it. Throws Error(ABORTED) naming the call.
  InferencePass(const Network& network, const Batch& batch, const char* call,
                const CancelFlag* cancel);
  // The output [R, C] of the last layer.
  const float* x() const { return x_; }

 private:
  float* x_ = nullptr;
  Slab slab_;
};

}  // namespace hindsearch
