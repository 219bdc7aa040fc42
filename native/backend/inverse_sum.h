// Inverse of a cumulative sum: how a uniform number becomes a token.
#pragma once

#include <type_traits>

// A kernel's own where nvcc compiles it.
#if defined(__CUDACC__)
#define HINDSEARCH_DEVICE __device__ __forceinline__
#else
#define HINDSEARCH_DEVICE
#endif

namespace hindsearch {

template <class Index>
struct Place {
  Index index;
  double rest;  // of the target, behind what lies before the index
};

// The first index in [begin, end) at which the sum of weight(i) >= 0 is above `target`. Where
// rounding leaves the whole sum at or below it, the last one that still moved the sum: never one
// whose weight is nothing beside the others.
template <class Index, class Weight>
HINDSEARCH_DEVICE Place<Index> find_place(std::type_identity_t<Index> begin, Index end,
                                          double target, Weight&& weight) {
  Place<Index> place{begin, target};
  double sum = 0;
  for (Index i = begin; i < end; ++i) {
    const double next = sum + weight(i);
    if (!(next > sum)) continue;
    place = {i, target - sum};
    if (next > target) break;
    sum = next;
  }
  return place;
}

}  // namespace hindsearch
