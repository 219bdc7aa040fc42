// The heads inside a layer's packed rows.
#pragma once

#include "native/backend/backend.h"
#include "native/model/network.h"

namespace hindsearch {

struct QkvViews {
  HeadsView q, k, v;
  HeadsView qk;  // q and k, which lie next to each other
};

// Heads of [R, (H + 2K) D] rows; q and k of `rotated` [R, (H + K) D] instead, if not null.
inline QkvViews qkv_views(const Network& network, std::int64_t rows, float* qkv, float* rotated) {
  const ModelConfig& config = network.config;
  const std::int64_t query = network.query_width(), key = network.key_width();
  float* qk = rotated ? rotated : qkv;
  const std::int64_t qk_stride = rotated ? query + key : query + 2 * key;
  return {{qk, rows, config.heads, config.head_dim, qk_stride},
          {qk + query, rows, config.kv_heads, config.head_dim, qk_stride},
          {qkv + query + key, rows, config.kv_heads, config.head_dim, query + 2 * key},
          {qk, rows, std::int64_t{config.heads} + config.kv_heads, config.head_dim, qk_stride}};
}

// Hidden states [R, C] as a view with one head.
inline HeadsView rows_view(float* x, std::int64_t rows, std::int64_t width) {
  return {x, rows, 1, width, width};
}
inline ConstHeadsView rows_view(const float* x, std::int64_t rows, std::int64_t width) {
  return {x, rows, 1, width, width};
}

}  // namespace hindsearch
