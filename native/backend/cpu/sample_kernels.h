// Passes over a row of the vocabulary for the filters of Sampling. Sums are in double, because
// where a filter cuts must not hang on rounding.
#pragma once

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/simd_lanes.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

// Calls body(block, offset, lanes) for every block of sixteen; in the last one, filled up with
// `fill`, only the bits of `lanes` count.
template <class Body>
inline void for_lanes(const float* values, std::int64_t n, float fill, Body&& body) {
  const std::int64_t full = n / kLanes * kLanes;
  for (std::int64_t i = 0; i < full; i += kLanes) body(load16(values + i), i, 0xffffu);
  if (full < n) body(load_first(values + full, n - full, fill), full, (1u << (n - full)) - 1);
}

inline float row_maximum(const float* logits, std::int64_t n) {
  constexpr int kChains = 4;  // a single one would wait for its own comparison
  constexpr std::int64_t kStep = kChains * kLanes;
  F16 most[kChains], numbers[kChains];  // numbers: 0, or NaN once a NaN was seen
  for (int chain = 0; chain < kChains; ++chain) {
    most[chain] = splat16(-__builtin_inff());
    numbers[chain] = splat16(0);
  }
  const auto take = [&](int chain, const F16& x) {
    most[chain] = larger(x, most[chain]);
    numbers[chain] = each([&](int i) {
      const V v = x.part[i];
      return v == v ? numbers[chain].part[i] : v;
    });
  };
  const std::int64_t full = n / kStep * kStep;
  for (std::int64_t i = 0; i < full; i += kStep) {
    HINDSEARCH_UNROLL
    for (int chain = 0; chain < kChains; ++chain) take(chain, load16(logits + i + chain * kLanes));
  }
  for_lanes(logits + full, n - full, -__builtin_inff(),
            [&](const F16& x, std::int64_t, std::uint32_t) { take(0, x); });
  F16 top = most[0], bad = numbers[0];
  for (int chain = 1; chain < kChains; ++chain) {
    top = larger(most[chain], top);
    bad = bad + numbers[chain];
  }
  return largest(top) + sum(bad);
}

inline double masses(const float* logits, std::int64_t n, float top, float inverse_temperature,
                     float* out) {
  const F16 shift = splat16(top), scale = splat16(inverse_temperature);
  DoubleSum total;
  const auto mass = [&](const F16& x) {
    // The difference first: it is exact where it matters, so a low temperature magnifies no
    // rounding.
    const F16 e = exp((x - shift) * scale);
    total.add(e);
    return e;
  };
  const std::int64_t full = n / kLanes * kLanes;
  for (std::int64_t i = 0; i < full; i += kLanes) store16(out + i, mass(load16(logits + i)));
  if (full < n) {
    const F16 tail = mass(load_first(logits + full, n - full, -__builtin_inff()));
    store_first(out + full, n - full, tail);
  }
  return total.total();
}

// kMasses: a value weighs as much as it is, otherwise one.
template <bool kMasses>
inline Bracketed bracket(const float* values, std::int64_t n, float low, float high,
                         float* inside) {
  const F16 lowest = splat16(low), highest = splat16(high), zero = splat16(0), one = splat16(1);
  // What fills the last block weighs nothing.
  constexpr float kFill = kMasses ? 0 : __builtin_inff();
  DoubleSum below;
  float* to = inside;
  for_lanes(values, n, kFill, [&](const F16& x, std::int64_t, std::uint32_t lanes) {
    const F16& weight = kMasses ? x : one;
    below.add(
        each([&](int i) { return x.part[i] < lowest.part[i] ? weight.part[i] : zero.part[i]; }));
    const std::uint32_t taken = at_least(x, lowest) & at_least(highest, x) & lanes;
    if (taken == 0) return;
    store_lanes(to, taken, x);
    to += __builtin_popcount(taken);
  });
  return {below.total(), to - inside};
}

inline std::int64_t collect(const float* values, std::int64_t n, float lowest, float* found,
                            Token* tokens) {
  const F16 low = splat16(lowest);
  std::int64_t count = 0;
  for_lanes(values, n, 0, [&](const F16& x, std::int64_t at, std::uint32_t lanes) {
    const std::uint32_t taken = at_least(x, low) & lanes;
    if (taken == 0) return;
    store_lanes(found + count, taken, x);
    store_numbers(tokens + count, taken, static_cast<std::int32_t>(at));
    count += __builtin_popcount(taken);
  });
  return count;
}

inline double sum_from(const float* masses, std::int64_t n, float lowest) {
  const F16 low = splat16(lowest), zero = splat16(0);
  DoubleSum total;
  for_lanes(masses, n, 0, [&](const F16& x, std::int64_t, std::uint32_t) {
    total.add(each([&](int i) { return x.part[i] >= low.part[i] ? x.part[i] : zero.part[i]; }));
  });
  return total.total();
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
