#include "native/model/network.h"

namespace hindsearch {

LayerTape::LayerTape(const Network& network, std::int64_t rows, Purpose purpose) {
  const ModelConfig& config = network.config;
  const std::int64_t hidden = config.hidden;
  const bool backward = purpose == Purpose::backward;
  slab_.add(attention_norm, rows * hidden);
  slab_.add(qkv, rows * network.qkv_width());
  slab_.add(attention, rows * network.query_width());
  slab_.add(gate_up, rows * 2 * config.intermediate);
  slab_.add(activation, rows * config.intermediate);
  if (backward) {
    slab_.add(attention_inv_rms, rows);
    slab_.add(statistics, rows * config.heads * 2);
    slab_.add(middle, rows * hidden);
    slab_.add(mlp_norm, rows * hidden);
    slab_.add(mlp_inv_rms, rows);
    if (config.qk_norm) {
      slab_.add(rotated, rows * (network.query_width() + network.key_width()));
      slab_.add(q_inv_rms, rows * config.heads);
      slab_.add(k_inv_rms, rows * config.kv_heads);
    }
  }
  slab_.allocate(network.backend);
  if (!backward) mlp_norm = attention_norm;
}

LayerGradients::LayerGradients(const Network& network, std::int64_t rows) {
  const ModelConfig& config = network.config;
  slab_.add(norm, rows * config.hidden);
  slab_.add(qkv, rows * network.qkv_width());
  slab_.add(attention, rows * network.query_width());
  slab_.add(gate_up, rows * 2 * config.intermediate);
  slab_.add(activation, rows * config.intermediate);
  if (config.qk_norm) slab_.add(rotated, rows * (network.query_width() + network.key_width()));
  slab_.allocate(network.backend);
}

}  // namespace hindsearch
