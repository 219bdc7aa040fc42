#include <cmath>

#include "native/model/layer_views.h"
#include "native/model/network.h"

namespace hindsearch {
namespace {

// d_x += gradient through rms_norm and the linear layer [N, C] behind it, whose output's gradient
// is d_y[R, N]. `x` is the norm's input.
void normed_linear_backward(const Network& network, std::int64_t rows, const float* x,
                            const float* inv_rms, std::int64_t norm_at, const Operand& d_y,
                            const PackedMatrix& packed, std::int64_t weight_at, float* d_bias,
                            LayerScratch& scratch, float* d_x, float* gradients) {
  Backend& backend = network.backend;
  const std::int64_t hidden = network.config.hidden, n = packed.rows();
  const float* norm_weight = network.weight(norm_at);
  const Operand normed = backend.rms_norm_operand(
      x, rows, hidden, norm_weight, network.config.rms_epsilon, scratch.norm, nullptr);
  backend.linear_backward_weight(d_y, normed, rows, n, hidden, gradients + weight_at, d_bias);
  backend.linear_backward_input(d_y, rows, packed, network.weight(weight_at), scratch.norm);
  backend.rms_norm_backward(rows_view(x, rows, hidden), inv_rms, norm_weight,
                            rows_view(static_cast<const float*>(scratch.norm), rows, hidden),
                            rows_view(d_x, rows, hidden), gradients + norm_at);
}

// d_x += gradient through the MLP.
void mlp_backward(const Network& network, std::int64_t rows, std::int32_t l, LayerTape& tape,
                  LayerScratch& scratch, float* d_x, float* gradients) {
  Backend& backend = network.backend;
  const LayerOffsets& at = network.layout.layer(l);
  const PackedLayer& packed = network.packed(l);
  const std::int64_t hidden = network.config.hidden, width = network.config.intermediate;
  const Operand d_output = as_operand(d_x, hidden);
  backend.linear_backward_input(d_output, rows, *packed.down, network.weight(at.down),
                                scratch.activation);
  const auto [d_gate_up, activation] =
      backend.silu_gate_backward(tape.gate_up, scratch.activation, rows, width);
  backend.linear_backward_weight(d_output, activation, rows, hidden, width, gradients + at.down,
                                 nullptr);
  normed_linear_backward(network, rows, tape.middle, tape.mlp_inv_rms, at.post_norm, d_gate_up,
                         *packed.gate_up, at.gate_up, nullptr, scratch, d_x, gradients);
}

// scratch.d_qkv = gradient of q, k and v as they left the projection.
void heads_backward(const Network& network, const PassRows& pass, std::int32_t l,
                    const LayerTape& tape, LayerScratch& scratch, float* gradients) {
  Backend& backend = network.backend;
  const ModelConfig& config = network.config;
  const LayerOffsets& at = network.layout.layer(l);
  const std::int64_t rows = pass.rows();
  const QkvViews heads = qkv_views(network, rows, tape.qkv, tape.rotated);
  const QkvViews d_heads = qkv_views(network, rows, scratch.d_qkv, scratch.d_rotated);

  // The pages have been used by other layers since.
  backend.write_kv(heads.k, heads.v, pass.index, pass.pages, pass.page_layer(l));
  if (config.qk_norm)
    backend.zero(scratch.d_qkv, rows * network.qkv_width());  // rms_norm_backward adds
  backend.attention_backward(heads.q, pass.index, pass.pages, pass.page_layer(l),
                             1 / std::sqrt(static_cast<float>(config.head_dim)), tape.attention,
                             tape.statistics, scratch.d_attention, d_heads.q, d_heads.k, d_heads.v);
  backend.rope(d_heads.qk, pass.index, network.cosines, network.sines, true);
  if (config.qk_norm) {
    const QkvViews plain = qkv_views(network, rows, tape.qkv, nullptr);
    const QkvViews d_plain = qkv_views(network, rows, scratch.d_qkv, nullptr);
    backend.rms_norm_backward(plain.q, tape.q_inv_rms, network.weight(at.q_norm), d_heads.q,
                              d_plain.q, gradients + at.q_norm);
    backend.rms_norm_backward(plain.k, tape.k_inv_rms, network.weight(at.k_norm), d_heads.k,
                              d_plain.k, gradients + at.k_norm);
  }
}

// d_x += gradient through the attention; x is the layer's input.
void attention_backward(const Network& network, const PassRows& pass, std::int32_t l,
                        const float* x, const LayerTape& tape, LayerScratch& scratch, float* d_x,
                        float* gradients) {
  Backend& backend = network.backend;
  const LayerOffsets& at = network.layout.layer(l);
  const PackedLayer& packed = network.packed(l);
  const std::int64_t rows = pass.rows(), hidden = network.config.hidden;
  const std::int64_t query = network.query_width();
  const Operand d_output = as_operand(d_x, hidden);
  backend.linear_backward_weight(d_output, as_operand(tape.attention, query), rows, hidden, query,
                                 gradients + at.o, nullptr);
  backend.linear_backward_input(d_output, rows, *packed.o, network.weight(at.o),
                                scratch.d_attention);
  heads_backward(network, pass, l, tape, scratch, gradients);
  normed_linear_backward(network, rows, x, tape.attention_inv_rms, at.input_norm,
                         as_operand(scratch.d_qkv, network.qkv_width()), *packed.qkv, at.qkv,
                         network.config.qkv_bias ? gradients + at.qkv_bias : nullptr, scratch, d_x,
                         gradients);
}

}  // namespace

void layer_backward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                    LayerTape& tape, LayerScratch& scratch, float* d_x, float* gradients) {
  mlp_backward(network, pass.rows(), l, tape, scratch, d_x, gradients);
  attention_backward(network, pass, l, x, tape, scratch, d_x, gradients);
}

void embed_backward(const Network& network, const PassRows& pass, const float* d_x,
                    float* gradients) {
  network.backend.embed_backward(pass.index, d_x, network.config.hidden,
                                 gradients + network.layout.embedding());
}

}  // namespace hindsearch
