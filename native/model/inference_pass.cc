#include "native/model/inference_pass.h"

namespace hindsearch {

InferencePass::InferencePass(const Network& network, const Batch& batch, const char* call,
                             const CancelFlag* cancel) {
  const ModelConfig& config = network.config;
  KvPages pages = network.backend.kv_pages(1, config.kv_heads, config.head_dim);
  slab_.add(x_, batch.rows() * config.hidden);
  slab_.add(pages.data, pages.page_floats * batch.page_count());
  slab_.allocate(network.backend);
  LayerTape tape(network, batch.rows(), Purpose::inference);
  LayerScratch scratch(network, batch.rows(), Purpose::inference);
  const std::unique_ptr<PassIndex> index = network.backend.index(false);
  index->assign(batch.tokens, batch.positions, batch.sequences);
  const PassRows pass{*index, pages};
  embed_forward(network, pass, x_);
  for (std::int32_t l = 0; l < config.layers; ++l) {
    check_cancelled(cancel, call);
    layer_forward(network, pass, l, x_, x_, tape, scratch);
  }
}

}  // namespace hindsearch
