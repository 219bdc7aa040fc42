// Softmax over a row of the vocabulary, the one place on the device where it is defined: segments
// of kSegment logits, each reduced by a warp in f32, merged by a warp in f64. The head and the
// sampler both go through it, so that equal logits have equal log-probs, bit for bit.
#pragma once

#include <limits>

#include "native/backend/cuda/ops/warp.h"

namespace hindsearch::cuda {

inline constexpr int kRowThreads = 512;  // of the block that a row has to itself
inline constexpr int kRowWarps = kRowThreads / kWarp;

inline constexpr int kSegment = 1024;
__host__ __device__ constexpr int segment_count(std::int64_t vocabulary) {
  return static_cast<int>((vocabulary + kSegment - 1) / kSegment);
}
inline constexpr int kLaneLogits = kSegment / kWarp;
inline constexpr int kStretch = 4 * kWarp;  // logits that a warp reads at once

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// e^x within 1.1 ulp, 0 below the smallest normal float; NaN stays NaN. Step by step what the CPU
// computes (exp in native/backend/cpu/simd.h): with the same masses both cut a row at the same
// place, which a difference in a last bit would move where logits are tied.
__device__ __forceinline__ float exponential(float x) {
  constexpr float kLowest = -87.33654475f, kHighest = 88.37626266f;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  constexpr float kRounder = 12582912.0f;
  const float shifted = fmaf(x, 1.44269504088896341f, kRounder);
  const float n = shifted - kRounder;
  // ln 2 in two parts, the first of which n multiplies without rounding.
  float r = fmaf(n, -0.693359375f, x);
  r = fmaf(n, 2.12194440054690583e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  p = fmaf(p, r * r, r) + 1.0f;
  float e = p * bits_to_float((float_to_bits(shifted) << 23) + 0x3f800000u);
  e = x < kLowest ? 0.0f : e;
  return x > kHighest ? kInfinity : e;
}

// Logit i of a lane is logit i / 4 * kStretch + lane * 4 + i % 4 of the segment; those behind the
// row's end are -inf. `whole`: the row begins at a 16-byte boundary and has whole fours. Where not,
// the lanes read the same logits one by one, so that sums keep their order.
__device__ __forceinline__ void load_segment(float (&x)[kLaneLogits], const float* row,
                                             std::int64_t vocabulary, std::int64_t start,
                                             bool whole) {
  const std::int64_t first = start + lane_id() * 4;
#pragma unroll
  for (int i = 0; i < kLaneLogits; i += 4) {
    const std::int64_t at = first + i / 4 * kStretch;
    if (whole) {
      const float4 four = at < vocabulary
                              ? *reinterpret_cast<const float4*>(row + at)
                              : make_float4(-kInfinity, -kInfinity, -kInfinity, -kInfinity);
      x[i] = four.x;
      x[i + 1] = four.y;
      x[i + 2] = four.z;
      x[i + 3] = four.w;
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) x[i + c] = at + c < vocabulary ? row[at + c] : -kInfinity;
    }
  }
}

// With z = logit / temperature: the largest logit (NaN where one is), sum = sum of
// e^(z - largest z), weighted = sum of e^(z - largest z) (z - largest z).
struct Segment {
  float top;
  float sum;
  float weighted;
};

// Reduces the segments of a row, a warp each. `scale` is 1 / temperature.
template <bool kWeighted>
__device__ __forceinline__ void reduce_segments(const float* row, std::int64_t vocabulary,
                                                bool whole, float scale, Segment* segments) {
  const int count = segment_count(vocabulary);
  for (int s = warp_id(); s < count; s += kRowWarps) {
    float x[kLaneLogits];
    load_segment(x, row, vocabulary, std::int64_t{s} * kSegment, whole);
    float top = x[0];
#pragma unroll
    for (int i = 1; i < kLaneLogits; ++i) top = larger(top, x[i]);
    top = warp_largest(top);
    // With nothing above -inf there is no maximum to subtract: -inf - -inf would be NaN.
    const float shift = top == -kInfinity ? 0.0f : top;
    float sum = 0, weighted = 0;
#pragma unroll
    for (int i = 0; i < kLaneLogits; ++i) {
      // The difference first: near the maximum it is exact, and a low temperature magnifies no
      // rounding.
      const float below = (x[i] - shift) * scale;
      const float e = exponential(below);
      sum += e;
      // Where e is 0, `below` may be -inf; 0 * -inf would be NaN.
      if (kWeighted) weighted = e > 0 ? fmaf(e, below, weighted) : weighted;
    }
    sum = warp_sum(sum);
    if (kWeighted) weighted = warp_sum(weighted);
    if (lane_id() == 0) segments[s] = {top, sum, weighted};
  }
}

// A whole row. NaN anywhere, and +inf, end as a sum that is NaN.
struct SoftmaxTotal {
  float top;
  float scale;
  double sum;
  double weighted;

  __device__ bool is_distribution() const { return sum > 0 && sum < double{kInfinity}; }
  __device__ double log_sum() const { return fma(double{top}, double{scale}, log(sum)); }
  __device__ float log_prob(float logit) const {
    return static_cast<float>(double{(logit - top) * scale} - log(sum));
  }
  __device__ double entropy() const { return log(sum) - weighted / sum; }
  // What a segment's sums count for here; those without a finite logit are 0, or NaN to be kept.
  __device__ double factor(const Segment& segment) const {
    return segment.top == -kInfinity ? 1.0 : double{exponential((segment.top - top) * scale)};
  }
  __device__ double mass(const Segment& segment) const {
    return factor(segment) * double{segment.sum};
  }
};

// By one warp, the same in every lane. fma, because two kernels must not round differently.
template <bool kWeighted>
__device__ __forceinline__ SoftmaxTotal merge_segments(const Segment* segments, int count,
                                                       float scale) {
  float top = -kInfinity;
  for (int s = lane_id(); s < count; s += kWarp) top = larger(top, segments[s].top);
  SoftmaxTotal total{warp_largest(top), scale, 0, 0};
  for (int s = lane_id(); s < count; s += kWarp) {
    const Segment& segment = segments[s];
    const double factor = total.factor(segment), sum = segment.sum;
    total.sum = fma(factor, sum, total.sum);
    if (kWeighted && segment.top > -kInfinity) {
      const double below = (segment.top - total.top) * scale;
      total.weighted = fma(factor, fma(below, sum, double{segment.weighted}), total.weighted);
    }
  }
  total.sum = warp_sum(total.sum);
  if (kWeighted) total.weighted = warp_sum(total.weighted);
  return total;
}

}  // namespace hindsearch::cuda
