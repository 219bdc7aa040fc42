// Four neighbouring floats, what a thread of a row-wise kernel takes at a time.
#pragma once

#include <initializer_list>

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

struct Quad {
  float at[4];
};
inline constexpr int kQuad = 4;

// Whether rows of these lengths and strides at these places may be read as whole quads, 16 bytes at
// a time. Where not, the same threads read the same quads by element: sums keep their order.
inline bool whole_quads(std::initializer_list<std::int64_t> lengths,
                        std::initializer_list<const void*> places) {
  for (const std::int64_t length : lengths) {
    if (length % kQuad != 0) return false;
  }
  for (const void* place : places) {
    if (reinterpret_cast<std::uintptr_t>(place) % sizeof(float4) != 0) return false;
  }
  return true;
}

// The quad at p, in a row that has `left` elements from there on; those it has not are zero.
__device__ __forceinline__ Quad load_quad(const float* p, std::int64_t left, bool whole) {
  if (whole) {
    const float4 x = *reinterpret_cast<const float4*>(p);
    return {{x.x, x.y, x.z, x.w}};
  }
  Quad quad;
#pragma unroll
  for (int c = 0; c < kQuad; ++c) quad.at[c] = c < left ? p[c] : 0.0f;
  return quad;
}

__device__ __forceinline__ void store_quad(float* p, std::int64_t left, bool whole, const Quad& x) {
  if (whole) {
    *reinterpret_cast<float4*>(p) = make_float4(x.at[0], x.at[1], x.at[2], x.at[3]);
    return;
  }
#pragma unroll
  for (int c = 0; c < kQuad; ++c) {
    if (c < left) p[c] = x.at[c];
  }
}
// Rounded; whole quads of it are 8 bytes.
__device__ __forceinline__ void store_quad(bf16* p, std::int64_t left, bool whole, const Quad& x) {
  if (whole) {
    *reinterpret_cast<uint2*>(p) =
        make_uint2(pack_bf16(x.at[0], x.at[1]), pack_bf16(x.at[2], x.at[3]));
    return;
  }
#pragma unroll
  for (int c = 0; c < kQuad; ++c) {
    if (c < left) p[c] = to_bf16(x.at[c]);
  }
}

}  // namespace hindsearch::cuda
