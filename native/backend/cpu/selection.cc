#include "native/backend/cpu/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace hindsearch::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Where n values are so few that guessing saves nothing.
constexpr std::int64_t kFew = 2048;
constexpr int kSample = 512;
// Standard deviations of a sample's estimate within which the truth is taken to lie.
constexpr double kMargin = 4;

struct Range {
  float low = -kInfinity;
  float high = kInfinity;
};

// A weight a value has, and bits that order as it does.
struct Logits {
  static double weight(float) { return 1; }
  static std::uint32_t key(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return bits >> 31 ? ~bits : bits | kSign;
  }
  static float value(std::uint32_t key) {
    return std::bit_cast<float>(key & kSign ? key ^ kSign : ~key);
  }
  static constexpr std::uint32_t kSign = 0x80000000u;
};
struct Masses {
  static double weight(float x) { return x; }
  static std::uint32_t key(float x) { return std::bit_cast<std::uint32_t>(x); }
  static float value(std::uint32_t key) { return std::bit_cast<float>(key); }
};

// Evenly spaced values of the row, ascending. Sorted by digits: a sort that compares would spend as
// long on mispredicted branches as the rest of the search takes.
template <class Kind>
void take_sample(const float* values, std::int64_t n, float* sample) {
  constexpr int kBits = 8, kDigits = 4, kBuckets = 1 << kBits;
  std::uint32_t keys[2][kSample];
  int starts[kDigits][kBuckets] = {};
  const auto digit = [](std::uint32_t key, int d) { return key >> (d * kBits) & (kBuckets - 1); };
  for (int i = 0; i < kSample; ++i) {
    const std::uint32_t key = keys[0][i] = Kind::key(values[(i * n + n / 2) / kSample]);
    for (int d = 0; d < kDigits; ++d) ++starts[d][digit(key, d)];
  }
  for (int d = 0; d < kDigits; ++d) {
    int start = 0;
    for (int& bucket : starts[d]) start += std::exchange(bucket, start);
    const std::uint32_t* from = keys[d % 2];
    std::uint32_t* to = keys[1 - d % 2];
    for (int i = 0; i < kSample; ++i) to[starts[d][digit(from[i], d)]++] = from[i];
  }
  static_assert(kDigits % 2 == 0);
  for (int i = 0; i < kSample; ++i) sample[i] = Kind::value(keys[0][i]);
}

struct Found {
  float value;         // the smallest that cannot go with all its equals
  std::int64_t count;  // of its equals
  double below;        // weight of all that are smaller
  bool within;         // or the bound lies behind all of them, and this is the largest
};

template <class Kind>
Found all_equal(float value, const Bracketed& values, double bound) {
  const double weight = static_cast<double>(values.inside) * Kind::weight(value);
  return {value, values.inside, values.below, values.below + weight > bound};
}

// The cut among the values inside a bracket, which are overwritten. The range of their keys is
// split into even bins and the search goes on in the bin of the cut, till one key is left.
template <class Kind>
Found find(float* values, Bracketed left, double bound) {
  constexpr int kMaxBits = 8, kCopies = 4;  // copies: a value need not wait for the one before
  double weights[1 << kMaxBits][kCopies];
  for (bool within = true;;) {
    std::uint32_t lowest = Kind::key(values[0]), highest = lowest;
    for (std::int64_t i = 1; i < left.inside; ++i) {
      const std::uint32_t key = Kind::key(values[i]);
      lowest = std::min(lowest, key);
      highest = std::max(highest, key);
    }
    if (lowest == highest) {
      Found found = all_equal<Kind>(values[0], left, bound);
      found.within = found.within && within;
      return found;
    }
    // Fewer bins for fewer values, or the bins would cost more than they do.
    const int bits = std::clamp(
        static_cast<int>(std::bit_width(static_cast<std::uint64_t>(left.inside))) - 1, 2, kMaxBits);
    const int shift = std::max(0, static_cast<int>(std::bit_width(highest - lowest)) - bits);
    const auto bin_of = [&](float x) { return (Kind::key(x) - lowest) >> shift; };
    const std::uint32_t last = (highest - lowest) >> shift;
    std::fill(weights[0], weights[last + 1], 0.0);
    for (std::int64_t i = 0; i < left.inside; ++i)
      weights[bin_of(values[i])][i % kCopies] += Kind::weight(values[i]);
    std::uint32_t chosen = 0;
    for (;; ++chosen) {
      const double* parts = weights[chosen];
      const double weight = (parts[0] + parts[1]) + (parts[2] + parts[3]);
      if (left.below + weight > bound) break;
      if (chosen == last) {
        within = false;
        break;
      }
      left.below += weight;
    }
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < left.inside; ++i) {
      const float x = values[i];
      values[kept] = x;
      kept += bin_of(x) == chosen;
    }
    left.inside = kept;
  }
}

// The cut within `guess`, or within `safe` if it is not there.
template <class Kind, class Bracket>
Found find_within(Bracket&& bracket, const Range& guess, const Range& safe, double bound,
                  float* work) {
  const Bracketed guessed = bracket(guess);
  if (guessed.inside > 0 && guessed.below <= bound) {
    const Found found = guess.low == guess.high ? all_equal<Kind>(guess.low, guessed, bound)
                                                : find<Kind>(work, guessed, bound);
    if (found.within || guess.high == kInfinity) return found;
  }
  return find<Kind>(work, bracket(safe), bound);
}

Range guess_rank(const float* logits, std::int64_t n, std::int64_t k) {
  if (n <= kFew) return {};
  float sample[kSample];
  take_sample<Logits>(logits, n, sample);
  const double above = static_cast<double>(k) / static_cast<double>(n) * kSample;
  const double margin = kMargin * (std::sqrt(std::min(above, kSample - above)) + 1);
  const int from = static_cast<int>(kSample - above - margin),
            to = static_cast<int>(std::ceil(kSample - above + margin));
  return {from >= 0 ? sample[from] : -kInfinity, to < kSample ? sample[to] : kInfinity};
}

// Estimates the mass below each value of the sample. A sum over small values is one that a sample
// can tell; the large ones, of which it may hold none, are not asked.
Range guess_mass(const float* masses, std::int64_t n, double bound, float negligible) {
  Range range{negligible, kInfinity};
  if (n <= kFew) return range;
  float sample[kSample];
  take_sample<Masses>(masses, n, sample);
  const double scale = static_cast<double>(n) / kSample;
  double sum = 0, squares = 0;
  for (const float mass : sample) {
    const double margin = kMargin * std::sqrt(squares);
    if (scale * (sum + margin) <= bound) range.low = std::max(negligible, mass);
    if (scale * (sum - margin) > bound) {
      range.high = std::max(range.low, mass);
      break;
    }
    sum += mass;
    squares += double{mass} * mass;
  }
  return range;
}

}  // namespace

float kth_largest(const RowKernels& kernels, const float* logits, std::int64_t n, std::int64_t k,
                  float* work) {
  const auto bracket = [&](const Range& range) {
    return kernels.bracket_logits(logits, n, range.low, range.high, work);
  };
  return find_within<Logits>(bracket, guess_rank(logits, n, k), {}, static_cast<double>(n - k),
                             work)
      .value;
}

Cut cut_top_p(const RowKernels& kernels, const float* masses, std::int64_t n, double total,
              double top_p, float* work) {
  const double bound = (1 - top_p) * total;
  // Values below this stay within the bound all together.
  const auto negligible = static_cast<float>(bound / static_cast<double>(n));
  const auto bracket = [&](const Range& range) {
    return kernels.bracket_masses(masses, n, range.low, range.high, work);
  };
  const Found found = find_within<Masses>(bracket, guess_mass(masses, n, bound, negligible),
                                          {negligible, kInfinity}, bound, work);
  const double mass = found.value;
  const auto weight = [&](std::int64_t equals) {
    return found.below + static_cast<double>(equals) * mass;
  };
  const std::int64_t most = found.value == 1 ? found.count - 1 : found.count;
  auto dropped = static_cast<std::int64_t>(
      std::clamp((bound - found.below) / mass, 0.0, static_cast<double>(most)));
  // The quotient is rounded.
  while (dropped > 0 && weight(dropped) > bound) --dropped;
  while (dropped < most && weight(dropped + 1) <= bound) ++dropped;
  return {found.value, found.count - dropped, dropped};
}

}  // namespace hindsearch::cpu
