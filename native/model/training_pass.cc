#include "native/model/training_pass.h"

namespace hindsearch {

TrainingPass::TrainingPass(const Network& network, const Batch& batch, bool checkpoint_activations)
    : network_(network),
      checkpoint_(checkpoint_activations),
      scratch_(network, batch.rows(), Purpose::backward),
      index_(network.backend.index(false)),
      pages_(network.backend.kv_pages(1, network.config.kv_heads, network.config.head_dim)) {
  const ModelConfig& config = network.config;
  inputs_.resize(static_cast<std::size_t>(config.layers) + 1);
  for (float*& input : inputs_) slab_.add(input, batch.rows() * config.hidden);
  slab_.add(d_x_, batch.rows() * config.hidden);
  slab_.add(pages_.data, pages_.page_floats * batch.page_count());
  slab_.allocate(network.backend);
  network.backend.zero(d_x_, batch.rows() * config.hidden);
  for (std::int32_t l = 0; l < (checkpoint_ ? 1 : config.layers); ++l) {
    tapes_.push_back(std::make_unique<LayerTape>(network, batch.rows(), Purpose::backward));
  }
  index_->assign(batch.tokens, batch.positions, batch.sequences);
}

const float* TrainingPass::forward(const CancelFlag* cancel) {
  embed_forward(network_, pass(), inputs_[0]);
  for (std::int32_t l = 0; l < network_.config.layers; ++l) {
    check_cancelled(cancel, "forward_backward");
    const auto i = static_cast<std::size_t>(l);
    layer_forward(network_, pass(), l, inputs_[i], inputs_[i + 1], tape(l), scratch_);
  }
  return inputs_.back();
}

void TrainingPass::backward(float* gradients, const CancelFlag* cancel) {
  const std::int32_t last = network_.config.layers - 1;
  for (std::int32_t l = last; l >= 0; --l) {
    check_cancelled(cancel, "forward_backward");
    const float* x = inputs_[static_cast<std::size_t>(l)];
    // After forward the one tape still holds the last layer.
    if (checkpoint_ && l != last) layer_recompute(network_, pass(), l, x, tape(l), scratch_);
    layer_backward(network_, pass(), l, x, tape(l), scratch_, d_x_, gradients);
  }
  embed_backward(network_, pass(), d_x_, gradients);
}

}  // namespace hindsearch
