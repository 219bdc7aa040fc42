#include <cmath>

#include "native/model/layer_views.h"
#include "native/model/network.h"

namespace hindsearch {
namespace {

// d_x += gradient through the MLP.
void mlp_backward(const Network& network, std::int64_t rows, const LayerOffsets& at,
                  const LayerTape& tape, LayerGradients& d, float* d_x, float* gradients) {
  Backend& backend = network.backend;
  const std::int64_t hidden = network.config.hidden, width = network.config.intermediate;
  backend.linear_backward_weight(d_x, tape.activation, rows, hidden, width, gradients + at.down,
                                 nullptr);
  backend.linear_backward_input(d_x, rows, network.weight(at.down), hidden, width, d.activation,
                                false);
  backend.silu_gate_backward(tape.gate_up, d.activation, rows, width, d.gate_up);
  backend.linear_backward_weight(d.gate_up, tape.mlp_norm, rows, 2 * width, hidden,
                                 gradients + at.gate_up, nullptr);
  backend.linear_backward_input(d.gate_up, rows, network.weight(at.gate_up), 2 * width, hidden,
                                d.norm, false);
  backend.rms_norm_backward(rows_view(static_cast<const float*>(tape.middle), rows, hidden),
                            tape.mlp_inv_rms, network.weight(at.post_norm),
                            rows_view(static_cast<const float*>(d.norm), rows, hidden),
                            rows_view(d_x, rows, hidden), gradients + at.post_norm);
}

// d.qkv = gradient of q, k and v as they left the projection.
void heads_backward(const Network& network, const PassRows& pass, std::int32_t l,
                    const LayerTape& tape, LayerGradients& d, float* gradients) {
  Backend& backend = network.backend;
  const ModelConfig& config = network.config;
  const LayerOffsets& at = network.layout.layer(l);
  const std::int64_t rows = pass.rows();
  const QkvViews heads = qkv_views(network, rows, tape.qkv, tape.rotated);
  const QkvViews d_heads = qkv_views(network, rows, d.qkv, d.rotated);

  // The pages have been used by other layers since.
  backend.write_kv(heads.k, heads.v, pass.sequences, pass.pages, pass.page_layer(l));
  if (config.qk_norm) backend.zero(d.qkv, rows * network.qkv_width());  // rms_norm_backward adds
  backend.attention_backward(heads.q, pass.sequences, pass.pages, pass.page_layer(l),
                             1 / std::sqrt(static_cast<float>(config.head_dim)), tape.attention,
                             tape.statistics, d.attention, d_heads.q, d_heads.k, d_heads.v);
  backend.rope(d_heads.q, pass.positions.data(), network.cosines, network.sines, true);
  backend.rope(d_heads.k, pass.positions.data(), network.cosines, network.sines, true);
  if (config.qk_norm) {
    const QkvViews plain = qkv_views(network, rows, tape.qkv, nullptr);
    const QkvViews d_plain = qkv_views(network, rows, d.qkv, nullptr);
    backend.rms_norm_backward(plain.q, tape.q_inv_rms, network.weight(at.q_norm), d_heads.q,
                              d_plain.q, gradients + at.q_norm);
    backend.rms_norm_backward(plain.k, tape.k_inv_rms, network.weight(at.k_norm), d_heads.k,
                              d_plain.k, gradients + at.k_norm);
  }
}

// d_x += gradient through the attention; x is the layer's input.
void attention_backward(const Network& network, const PassRows& pass, std::int32_t l,
                        const float* x, const LayerTape& tape, LayerGradients& d, float* d_x,
                        float* gradients) {
  Backend& backend = network.backend;
  const LayerOffsets& at = network.layout.layer(l);
  const std::int64_t rows = pass.rows(), hidden = network.config.hidden;
  const std::int64_t query = network.query_width(), qkv = network.qkv_width();
  backend.linear_backward_weight(d_x, tape.attention, rows, hidden, query, gradients + at.o,
                                 nullptr);
  backend.linear_backward_input(d_x, rows, network.weight(at.o), hidden, query, d.attention, false);
  heads_backward(network, pass, l, tape, d, gradients);
  backend.linear_backward_weight(d.qkv, tape.attention_norm, rows, qkv, hidden, gradients + at.qkv,
                                 network.config.qkv_bias ? gradients + at.qkv_bias : nullptr);
  backend.linear_backward_input(d.qkv, rows, network.weight(at.qkv), qkv, hidden, d.norm, false);
  backend.rms_norm_backward(rows_view(x, rows, hidden), tape.attention_inv_rms,
                            network.weight(at.input_norm),
                            rows_view(static_cast<const float*>(d.norm), rows, hidden),
                            rows_view(d_x, rows, hidden), gradients + at.input_norm);
}

}  // namespace

void layer_backward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                    const LayerTape& tape, LayerGradients& scratch, float* d_x, float* gradients) {
  mlp_backward(network, pass.rows(), network.layout.layer(l), tape, scratch, d_x, gradients);
  attention_backward(network, pass, l, x, tape, scratch, d_x, gradients);
}

void embed_backward(const Network& network, const PassRows& pass, const float* d_x,
                    float* gradients) {
  network.backend.embed_backward(pass.tokens.data(), pass.rows(), d_x, network.config.hidden,
                                 gradients + network.layout.embedding());
}

}  // namespace hindsearch
