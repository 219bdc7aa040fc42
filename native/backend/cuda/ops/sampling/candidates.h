// What the filters of Sampling have left of a row: the row itself, or a list in shared memory.
#pragma once

#include "native/backend/cuda/ops/sampling/selection.h"

namespace hindsearch::cuda {

inline constexpr int kRoom = 4096;  // of the list
inline constexpr int kSpan = 256;   // logits with a known maximum
inline constexpr int kSegmentSpans = kSegment / kSpan;

struct ListMemory {
  float logits[kRoom];
  Token tokens[kRoom];
  int counts[kRowWarps];
};

// In the order of the ids.
struct Candidates {
  const float* logits;
  const Token* tokens;  // null: candidate i is token i
  int count;
  bool whole;   // in whole fours, from a 16-byte boundary
  float least;  // a smaller logit is out, and has no mass
  float top;    // the row's largest logit, whose mass is 1
  float scale;  // 1 / temperature

  __device__ float mass(float logit) const {
    return logit < least ? 0.0f : exponential((logit - top) * scale);
  }
  __device__ Token token(int i) const { return tokens ? tokens[i] : i; }

  // Calls body(logit) for this thread's share.
  template <class Body>
  __device__ __forceinline__ void each(Body&& body) const {
    if (!whole) {
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) body(logits[i]);
      return;
    }
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x) * 4; i < count; i += 4 * kRowThreads) {
      const float4 four = *reinterpret_cast<const float4*>(logits + i);
      body(four.x);
      body(four.y);
      body(four.z);
      body(four.w);
    }
  }
};

// The largest logit of every span of the row, and of the row: NaN where one is. `spans` has room
// for those of whole segments.
__device__ __forceinline__ float find_largest(const float* row, int vocabulary, bool whole,
                                              float* spans) {
  const int segments = segment_count(vocabulary);
  for (int s = warp_id(); s < segments; s += kRowWarps) {
    float x[kLaneLogits];
    load_segment(x, row, vocabulary, std::int64_t{s} * kSegment, whole);
#pragma unroll
    for (int span = 0; span < kSegmentSpans; ++span) {
      constexpr int kLogits = kLaneLogits / kSegmentSpans;
      float top = x[span * kLogits];
#pragma unroll
      for (int i = 1; i < kLogits; ++i) top = larger(top, x[span * kLogits + i]);
      top = warp_largest(top);
      if (lane_id() == 0) spans[s * kSegmentSpans + span] = top;
    }
  }
  __syncthreads();
  float top = -kInfinity;
  for (int i = lane_id(); i < segments * kSegmentSpans; i += kWarp) top = larger(top, spans[i]);
  return warp_largest(top);
}

// Moves the row's logits of at least `least` into the list, if they have room in it. Spans without
// one are not read.
__device__ __forceinline__ bool narrow(Candidates& row, float least, const float* spans,
                                       ListMemory& list) {
  if (row.tokens) return false;
  least = least > row.least ? least : row.least;
  const int count = (row.count + kSpan - 1) / kSpan, each = (count + kRowWarps - 1) / kRowWarps;
  const int begin = min(count, warp_id() * each), end = min(count, begin + each);
  const auto taken = [&](int i) { return i < row.count && row.logits[i] >= least; };

  int found = 0;
  for (int span = begin; span < end; ++span) {
    if (spans[span] < least) continue;
#pragma unroll
    for (int i = 0; i < kSpan; i += kWarp) found += taken(span * kSpan + i + lane_id());
  }
  found = warp_sum(found);
  if (lane_id() == 0) list.counts[warp_id()] = found;
  __syncthreads();
  int total = 0, at = 0;
  for (int warp = 0; warp < kRowWarps; ++warp) {
    at += warp < warp_id() ? list.counts[warp] : 0;
    total += list.counts[warp];
  }
  if (total > kRoom) return false;

  for (int span = begin; span < end; ++span) {
    if (spans[span] < least) continue;
    for (int i = span * kSpan; i < (span + 1) * kSpan; i += kWarp) {
      const bool mine = taken(i + lane_id());
      const unsigned all = __ballot_sync(kAllLanes, mine);
      if (mine) {
        const int to = at + __popc(all & ((1u << lane_id()) - 1));
        list.logits[to] = row.logits[i + lane_id()];
        list.tokens[to] = i + lane_id();
      }
      at += __popc(all);
    }
  }
  __syncthreads();
  row.logits = list.logits;
  row.tokens = list.tokens;
  row.count = total;
  row.whole = false;
  return true;
}

}  // namespace hindsearch::cuda
