#include <algorithm>
#include <cmath>

#include "native/model/layer_views.h"
#include "native/model/network.h"

namespace hindsearch {
namespace {

// middle = x + attention, and what of it belongs on the tape.
void attention_forward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                       float* middle, LayerTape& tape, LayerScratch& scratch) {
  Backend& backend = network.backend;
  const ModelConfig& config = network.config;
  const LayerOffsets& at = network.layout.layer(l);
  const PackedLayer& packed = network.packed(l);
  const std::int64_t rows = pass.rows();
  const float epsilon = config.rms_epsilon;

  const Operand normed =
      backend.rms_norm_operand(x, rows, config.hidden, network.weight(at.input_norm), epsilon,
                               scratch.norm, tape.attention_inv_rms);
  backend.linear(normed, rows, *packed.qkv,
                 bias_of(config.qkv_bias ? network.weight(at.qkv_bias) : nullptr), tape.qkv,
                 packed.o.get());
  const QkvViews plain = qkv_views(network, rows, tape.qkv, nullptr);
  const QkvViews heads = qkv_views(network, rows, tape.qkv, tape.rotated);
  if (config.qk_norm) {
    backend.rms_norm(plain.q, network.weight(at.q_norm), epsilon, heads.q, tape.q_inv_rms);
    backend.rms_norm(plain.k, network.weight(at.k_norm), epsilon, heads.k, tape.k_inv_rms);
  }
  backend.rope(heads.qk, pass.index, network.cosines, network.sines, false);
  backend.write_kv(heads.k, heads.v, pass.index, pass.pages, pass.page_layer(l));
  const Operand attention = backend.attention(heads.q, pass.index, pass.pages, pass.page_layer(l),
                                              1 / std::sqrt(static_cast<float>(config.head_dim)),
                                              tape.attention, tape.statistics);
  backend.linear(attention, rows, *packed.o, rows_of(x), middle, packed.gate_up.get());
}

// Rows [first, first + rows) of the MLP's widest result, to `gate_up`.
void gate_forward(const Network& network, std::int32_t l, std::int64_t first, std::int64_t rows,
                  const float* middle, float* gate_up, const LayerTape& tape,
                  LayerScratch& scratch) {
  Backend& backend = network.backend;
  const std::int64_t hidden = network.config.hidden;
  const Operand normed = backend.rms_norm_operand(
      middle + first * hidden, rows, hidden, network.weight(network.layout.layer(l).post_norm),
      network.config.rms_epsilon, scratch.norm,
      tape.mlp_inv_rms ? tape.mlp_inv_rms + first : nullptr);
  const PackedLayer& packed = network.packed(l);
  backend.linear(normed, rows, *packed.gate_up, {}, gate_up, packed.down.get());
}

// body(first, rows) for as many rows of a pass at a time as the backend likes.
template <class Body>
void for_row_blocks(const Network& network, std::int64_t rows, Body&& body) {
  const std::int64_t together = network.backend.rows_together(rows);
  for (std::int64_t first = 0; first < rows; first += together)
    body(first, std::min(together, rows - first));
}

}  // namespace

void embed_forward(const Network& network, const PassRows& pass, float* x) {
  network.backend.embed(pass.index, network.weight(network.layout.embedding()),
                        network.config.hidden, x);
}

void layer_forward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                   float* out, LayerTape& tape, LayerScratch& scratch) {
  Backend& backend = network.backend;
  const std::int64_t hidden = network.config.hidden, width = network.config.intermediate;
  float* const middle = tape.middle ? tape.middle : out;
  attention_forward(network, pass, l, x, middle, tape, scratch);
  for_row_blocks(network, pass.rows(), [&](std::int64_t first, std::int64_t rows) {
    // Without a backward, the place of the rows before.
    float* const gate_up = tape.gate_up + (tape.middle ? first * 2 * width : 0);
    gate_forward(network, l, first, rows, middle, gate_up, tape, scratch);
    const Operand activation = backend.silu_gate(gate_up, rows, width, scratch.activation);
    backend.linear(activation, rows, *network.packed(l).down, rows_of(middle + first * hidden),
                   out + first * hidden, &network.packed_after(l));
  });
}

void layer_recompute(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                     LayerTape& tape, LayerScratch& scratch) {
  attention_forward(network, pass, l, x, tape.middle, tape, scratch);
  gate_forward(network, l, 0, pass.rows(), tape.middle, tape.gate_up, tape, scratch);
}

}  // namespace hindsearch
