// Inverse of a cumulative sum: how a uniform number becomes a token.
#pragma once

#include <cstdint>

namespace hindsearch::cpu {

struct Place {
  std::int64_t index;
  double rest;  // of the target, behind what lies before the index
};

// The first index in [begin, end) at which the sum of weight(i) >= 0 is above `target`. Where
// rounding leaves the whole sum at or below it, the last one that still moved the sum: never one
// whose weight is nothing beside the others.
template <class Weight>
Place find_place(std::int64_t begin, std::int64_t end, double target, Weight&& weight) {
  Place place{begin, target};
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const double next = sum + weight(i);
    if (!(next > sum)) continue;
    place = {i, target - sum};
    if (next > target) break;
    sum = next;
  }
  return place;
}

}  // namespace hindsearch::cpu
