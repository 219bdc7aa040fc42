// Places and reductions of a warp that all its lanes take part in.
#pragma once

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

// The larger of two, NaN if one is.
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ __forceinline__ float warp_largest(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    x = larger(x, __shfl_xor_sync(kAllLanes, x, step));
  }
  return x;
}

}  // namespace hindsearch::cuda
