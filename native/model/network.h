// Forward and backward of the decoder, a layer at a time.
//
// There is one forward for the decoder (cached keys and values, past > 0), for scoring and for
// training; what differs is only which intermediate results get a place of their own. So a row's
// numbers are the same in all three.
#pragma once

#include <cstdint>

#include "native/backend/backend.h"
#include "native/model/config.h"
#include "native/model/parameters.h"
#include "native/model/slab.h"
#include "native/model/weights.h"

namespace hindsearch {

// Everything that stays the same during a pass.
struct Network {
  Backend& backend;
  const ModelConfig& config;
  const ParameterLayout& layout;
  const Weights& weights;
  const float* cosines;  // [positions, D / 2]
  const float* sines;

  std::int64_t query_width() const { return std::int64_t{config.heads} * config.head_dim; }
  std::int64_t key_width() const { return std::int64_t{config.kv_heads} * config.head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * key_width(); }
  const float* weight(std::int64_t offset) const { return weights.arena->data() + offset; }
  const PackedLayer& packed(std::int32_t l) const {
    return weights.layers[static_cast<std::size_t>(l)];
  }
  // The matrix that comes after layer l.
  const PackedMatrix& packed_after(std::int32_t l) const {
    return l + 1 < config.layers ? *packed(l + 1).qkv : *weights.head;
  }
};

// The rows of a pass and where their keys and values go.
struct PassRows {
  const PassIndex& index;
  KvPages pages;

  std::int64_t rows() const { return index.rows(); }
  // Pages of one layer serve all layers in turn: scoring and training need no more.
  std::int32_t page_layer(std::int32_t l) const { return pages.layers == 1 ? 0 : l; }
};

enum class Purpose { inference, backward };

// Intermediate results of one layer, of which backward keeps one per layer. What it can compute
// again at next to no cost, the norms and the MLP's activation, is not among them. For inference
// those that backward alone needs are absent (null).
class LayerTape {
 public:
  LayerTape(const Network& network, std::int64_t rows, Purpose purpose);
  LayerTape(const LayerTape&) = delete;
  LayerTape& operator=(const LayerTape&) = delete;
  std::size_t bytes() const { return slab_.bytes(); }

  float* attention_inv_rms = nullptr;  // [R], backward
  float* qkv = nullptr;                // [R, (H + 2K) D]; without rotated, q and k end up rotated
  float* rotated = nullptr;  // [R, (H + K) D] q and k after norm and rotation; backward of qk_norm
  float* q_inv_rms = nullptr;    // [R, H], backward of qk_norm
  float* k_inv_rms = nullptr;    // [R, K], likewise
  float* attention = nullptr;    // [R, H D]
  float* statistics = nullptr;   // [R, H, 2], backward
  float* middle = nullptr;       // [R, C] residual between attention and MLP, backward
  float* mlp_inv_rms = nullptr;  // [R], backward
  // [R, 2F]; backward leaves its gradient there. For inference as many rows as are run together.
  float* gate_up = nullptr;

 private:
  Slab slab_;
};

// What all layers use in turn. A place holds a result in the forward, and in the backward the
// result or its gradient.
class LayerScratch {
 public:
  LayerScratch(const Network& network, std::int64_t rows, Purpose purpose);
  LayerScratch(const LayerScratch&) = delete;
  LayerScratch& operator=(const LayerScratch&) = delete;
  std::size_t bytes() const { return slab_.bytes(); }

  float* norm = nullptr;         // [R, C], of either norm
  float* activation = nullptr;   // [R, F], for inference as many rows as are run together
  float* d_qkv = nullptr;        // [R, (H + 2K) D], backward
  float* d_rotated = nullptr;    // [R, (H + K) D], backward of qk_norm
  float* d_attention = nullptr;  // [R, H D], backward

 private:
  Slab slab_;
};

// x[R, C] = embedding rows.
void embed_forward(const Network& network, const PassRows& pass, float* x);
// out = layer l of x, both [R, C]; they may be the same buffer. With a tape for backward, its
// `middle` is filled in too.
void layer_forward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                   float* out, LayerTape& tape, LayerScratch& scratch);
// The same as far as backward needs it: fills the tape alone.
void layer_recompute(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                     LayerTape& tape, LayerScratch& scratch);

// d_x[R, C] holds dL/d(output) on entry and dL/d(input) on return. Adds to `gradients`, which has
// the layout of the weights. `x` is the layer's input. Uses the tape up.
void layer_backward(const Network& network, const PassRows& pass, std::int32_t l, const float* x,
                    LayerTape& tape, LayerScratch& scratch, float* d_x, float* gradients);
void embed_backward(const Network& network, const PassRows& pass, const float* d_x,
                    float* gradients);

}  // namespace hindsearch
