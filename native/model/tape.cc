#include "native/model/network.h"

namespace hindsearch {
namespace {

// Rows of the MLP's wide results that there is room for.
std::int64_t wide_rows(const Network& network, std::int64_t rows, Purpose purpose) {
  return purpose == Purpose::backward ? rows : network.backend.rows_together(rows);
}

}  // namespace

LayerTape::LayerTape(const Network& network, std::int64_t rows, Purpose purpose) {
  const ModelConfig& config = network.config;
  slab_.add(qkv, rows * network.qkv_width());
  slab_.add(attention, rows * network.query_width());
  slab_.add(gate_up, wide_rows(network, rows, purpose) * 2 * config.intermediate);
  if (purpose == Purpose::backward) {
    slab_.add(attention_inv_rms, rows);
    slab_.add(statistics, rows * config.heads * 2);
    slab_.add(middle, rows * config.hidden);
    slab_.add(mlp_inv_rms, rows);
    if (config.qk_norm) {
      slab_.add(rotated, rows * (network.query_width() + network.key_width()));
      slab_.add(q_inv_rms, rows * config.heads);
      slab_.add(k_inv_rms, rows * config.kv_heads);
    }
  }
  slab_.allocate(network.backend);
}

LayerScratch::LayerScratch(const Network& network, std::int64_t rows, Purpose purpose) {
  const ModelConfig& config = network.config;
  slab_.add(norm, rows * config.hidden);
  slab_.add(activation, wide_rows(network, rows, purpose) * config.intermediate);
  if (purpose == Purpose::backward) {
    slab_.add(d_qkv, rows * network.qkv_width());
    slab_.add(d_attention, rows * network.query_width());
    if (config.qk_norm) slab_.add(d_rotated, rows * (network.query_width() + network.key_width()));
  }
  slab_.allocate(network.backend);
}

}  // namespace hindsearch
