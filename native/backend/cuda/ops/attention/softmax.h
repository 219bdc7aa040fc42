// The online softmax over products' accumulators: maxima and sums of rows, in registers.
#pragma once

#include <cmath>

#include "native/backend/cuda/ops/attention/tiles.h"

namespace hindsearch::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

// Largest score so far, before the scale, and this lane's part of the sum of exponentials, for the
// rows g and g + 8 of each part.
template <int kParts>
struct Softmax {
  float largest[kParts][2], sum[kParts][2];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        largest[i][half] = -INFINITY;
        sum[i][half] = 0;
      }
    }
  }
  // The sum of all four lanes of a row.
  __device__ float total(int i, int half) const {
    float all = sum[i][half];
    all += __shfl_xor_sync(~0u, all, 1);
    all += __shfl_xor_sync(~0u, all, 2);
    return all;
  }
};

// Turns scores into exponentials, and sums of before to the new maximum.
template <int kParts, int kScores, int kColumns>
__device__ void exponentiate(float (&scores)[kParts][kScores][4], float scale_log2,
                             Softmax<kParts>& softmax, float (&sums)[kParts][kColumns][4]) {
  float largest[kParts][2];
  bool grown = false;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = softmax.largest[i][half];
#pragma unroll
      for (int n = 0; n < kScores; ++n) {
        most = fmaxf(most, fmaxf(scores[i][n][2 * half], scores[i][n][2 * half + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      grown |= most > softmax.largest[i][half];
      largest[i][half] = most;
    }
  }
  // After a few tiles the maximum rests, and the factor is 1.
  if (__any_sync(~0u, grown)) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float before = softmax.largest[i][half];
        const float factor =
            before == largest[i][half] ? 1 : fast_exp2((before - largest[i][half]) * scale_log2);
        softmax.largest[i][half] = largest[i][half];
        softmax.sum[i][half] *= factor;
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          sums[i][n][2 * half] *= factor;
          sums[i][n][2 * half + 1] *= factor;
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float most = largest[i][half] * scale_log2;
#pragma unroll
      for (int n = 0; n < kScores; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[i][n][e] = fast_exp2(fmaf(scores[i][n][e], scale_log2, -most));
          softmax.sum[i][half] += scores[i][n][e];
        }
      }
    }
  }
}

// A lane's columns of one row of weighted sums, times `factor`.
template <int kHead, int kColumns>
__device__ void store_columns(const float (&sums)[kColumns][4], int half, float factor,
                              const Lane& lane, std::int32_t width, bool vectors, float* to) {
#pragma unroll
  for (int d = 0; d < kHead; d += 32) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = d + 8 * lane.t + 4 * e, at = 2 * half + e;
      const float4 x = make_float4(sums[d / 8][at] * factor, sums[d / 8 + 1][at] * factor,
                                   sums[d / 8 + 2][at] * factor, sums[d / 8 + 3][at] * factor);
      if (vectors) {
        if (column < width) *reinterpret_cast<float4*>(to + column) = x;
      } else {
        if (column < width) to[column] = x.x;
        if (column + 1 < width) to[column + 1] = x.y;
        if (column + 2 < width) to[column + 2] = x.z;
        if (column + 3 < width) to[column + 3] = x.w;
      }
    }
  }
}

}  // namespace hindsearch::cuda
