#include <cmath>

#include "native/model/layer_views.h"
#include "native/model/network.h"

namespace hindsearch {
namespace {

// Fills the tape and leaves x + attention in `middle`.
void forward_to_gate(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                     float* middle, LayerTape& tape, LayerScratch& scratch) {
  Backend& backend = network.backend;
  const ModelConfig& config = network.config;
  const LayerOffsets& at = network.layout.layer(l);
  const PackedLayer& packed = network.packed(l);
  const std::int64_t rows = pass.rows(), hidden = config.hidden;
  const float epsilon = config.rms_epsilon;

  backend.rms_norm(rows_view(x, rows, hidden), network.weight(at.input_norm), epsilon,
                   rows_view(scratch.norm, rows, hidden), tape.attention_inv_rms);
  backend.linear(scratch.norm, rows, *packed.qkv,
                 config.qkv_bias ? network.weight(at.qkv_bias) : nullptr, tape.qkv, false);
  const QkvViews plain = qkv_views(network, rows, tape.qkv, nullptr);
  const QkvViews heads = qkv_views(network, rows, tape.qkv, tape.rotated);
  if (config.qk_norm) {
    backend.rms_norm(plain.q, network.weight(at.q_norm), epsilon, heads.q, tape.q_inv_rms);
    backend.rms_norm(plain.k, network.weight(at.k_norm), epsilon, heads.k, tape.k_inv_rms);
  }
  backend.rope(heads.qk, pass.index, network.cosines, network.sines, false);
  backend.write_kv(heads.k, heads.v, pass.index, pass.pages, pass.page_layer(l));
  backend.attention(heads.q, pass.index, pass.pages, pass.page_layer(l),
                    1 / std::sqrt(static_cast<float>(config.head_dim)), tape.attention,
                    tape.statistics);

  if (middle != x) backend.copy(x, middle, rows * hidden);
  backend.linear(tape.attention, rows, *packed.o, nullptr, middle, true);
  backend.rms_norm(rows_view(static_cast<const float*>(middle), rows, hidden),
                   network.weight(at.post_norm), epsilon, rows_view(scratch.norm, rows, hidden),
                   tape.mlp_inv_rms);
  backend.linear(scratch.norm, rows, *packed.gate_up, nullptr, tape.gate_up, false);
}

}  // namespace

void embed_forward(const Network& network, const PassRows& pass, float* x) {
  network.backend.embed(pass.index, network.weight(network.layout.embedding()),
                        network.config.hidden, x);
}

void layer_forward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                   float* out, LayerTape& tape, LayerScratch& scratch) {
  Backend& backend = network.backend;
  const std::int64_t rows = pass.rows();
  float* middle = tape.middle ? tape.middle : out;
  forward_to_gate(network, pass, l, x, middle, tape, scratch);
  if (middle != out) backend.copy(middle, out, rows * network.config.hidden);
  backend.silu_gate(tape.gate_up, rows, network.config.intermediate, scratch.activation);
  backend.linear(scratch.activation, rows, *network.packed(l).down, nullptr, out, true);
}

void layer_recompute(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                     LayerTape& tape, LayerScratch& scratch) {
  forward_to_gate(network, pass, l, x, tape.middle, tape, scratch);
}

}  // namespace hindsearch
