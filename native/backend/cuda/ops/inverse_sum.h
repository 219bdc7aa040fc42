// find_place() over the lanes of a warp.
#pragma once

#include "native/backend/cuda/ops/warp.h"
#include "native/backend/inverse_sum.h"

namespace hindsearch::cuda {

// One weight each, behind a sum of `before`.
struct LanePlace {
  int lane;      // -1: no weight moved the sum
  bool reached;  // the sum is above the target there
  double rest;
  double after;  // the sum behind the last lane
};
__device__ __forceinline__ LanePlace find_lane(double weight, double target, double before = 0) {
  double sum = weight;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const double lower = __shfl_up_sync(kAllLanes, sum, step);
    if (lane_id() >= step) sum += lower;
  }
  sum += before;
  double previous = __shfl_up_sync(kAllLanes, sum, 1);
  if (lane_id() == 0) previous = before;
  // Each lane's sum is added up in an order of its own: behind no weight at all it may be a
  // rounding above the one before.
  const bool moves = weight > 0 && sum > previous;
  const unsigned moved = __ballot_sync(kAllLanes, moves),
                 above = __ballot_sync(kAllLanes, moves && sum > target);
  const int lane =
      above != 0 ? __ffs(static_cast<int>(above)) - 1 : kWarp - 1 - __clz(static_cast<int>(moved));
  const double rest = target - __shfl_sync(kAllLanes, previous, lane < 0 ? 0 : lane);
  return {lane, above != 0, rest, __shfl_sync(kAllLanes, sum, kWarp - 1)};
}

}  // namespace hindsearch::cuda
