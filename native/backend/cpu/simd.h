// Vectors of the instruction set this translation unit is compiled for.
//
// Everything in here, and in every *_kernels.h, lives in a namespace named after the instruction
// set: the same inline function compiled with and without AVX-512 must never be one symbol, or the
// linker would pick either for all. For the same reason these headers use nothing inline of the
// standard library.
//
//   V    one register (kWidth floats)
//   F16  sixteen floats, one or more registers. Reductions are written on F16, so that lane and
//        order of every addition are the same whatever the register width is.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef HINDSEARCH_ISA
#error "define HINDSEARCH_ISA, the namespace of this instruction set, before including kernels"
#endif

// Tiles live in registers only when their loops are unrolled completely.
#if defined(__clang__)
#define HINDSEARCH_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HINDSEARCH_UNROLL _Pragma("GCC unroll 16")
#endif

namespace hindsearch::cpu::HINDSEARCH_ISA {

#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif
inline constexpr int kLanes = 16;
inline constexpr int kParts = kLanes / kWidth;

using V = float __attribute__((vector_size(kWidth * 4)));
using I = std::int32_t __attribute__((vector_size(kWidth * 4), may_alias));
using U = std::uint32_t __attribute__((vector_size(kWidth * 4)));
// The same at any address.
using UnalignedV = float __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
using UnalignedU = std::uint32_t __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

inline V load(const float* p) { return *reinterpret_cast<const UnalignedV*>(p); }
inline void store(float* p, V v) { *reinterpret_cast<UnalignedV*>(p) = v; }
inline U load(const std::uint32_t* p) { return *reinterpret_cast<const UnalignedU*>(p); }
inline void store(std::uint32_t* p, U v) { *reinterpret_cast<UnalignedU*>(p) = v; }
inline V splat(float x) { return x - V{}; }
inline V as_float(U u) { return reinterpret_cast<V>(u); }
inline U as_bits(V v) { return reinterpret_cast<U>(v); }

// a * b + c, rounded once where the instruction set can. Never left to the compiler's choice: two
// copies of a loop must round alike.
inline V fma(V a, V b, V c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

inline V sqrt(V a) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, a);  // the unmasked form warns in gcc 12
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(a);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(a);
#elif defined(__aarch64__)
  return vsqrtq_f32(a);
#else
  for (int i = 0; i < kWidth; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
#endif
}

// The first n floats (1..kWidth), the rest zero; nothing behind them is touched.
inline V load_part(const float* p, std::int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#else
  V v{};
  for (int i = 0; i < kWidth; ++i) v[i] = i < n ? p[i] : 0.0f;
  return v;
#endif
}
inline void store_part(float* p, std::int64_t n, V v) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
#else
  for (int i = 0; i < kWidth; ++i) {
    if (i < n) p[i] = v[i];
  }
#endif
}

struct F16 {
  V part[kParts];
};

template <class Function>
inline F16 each(Function&& function) {
  F16 out;
  HINDSEARCH_UNROLL
  for (int i = 0; i < kParts; ++i) out.part[i] = function(i);
  return out;
}

inline F16 load16(const float* p) {
  return each([&](int i) { return load(p + i * kWidth); });
}
inline void store16(float* p, const F16& x) {
  HINDSEARCH_UNROLL
  for (int i = 0; i < kParts; ++i) store(p + i * kWidth, x.part[i]);
}
inline F16 splat16(float x) {
  return each([&](int) { return splat(x); });
}
// The first n floats (0..15), the rest `fill`.
inline F16 load_first(const float* p, std::int64_t n, float fill = 0) {
  alignas(64) float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : fill;
  return load16(lanes);
}
inline void store_first(float* p, std::int64_t n, const F16& x) {
  alignas(64) float lanes[kLanes];
  store16(lanes, x);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
inline F16 fma(const F16& a, const F16& b, const F16& c) {
  return each([&](int i) { return fma(a.part[i], b.part[i], c.part[i]); });
}
inline F16 operator+(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] + b.part[i]; });
}
inline F16 operator-(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] - b.part[i]; });
}
inline F16 operator*(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] * b.part[i]; });
}
inline F16 operator/(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] / b.part[i]; });
}
inline F16 sqrt(const F16& a) {
  return each([&](int i) { return sqrt(a.part[i]); });
}
// a > b ? a : b, so a NaN in `a` is passed over.
inline F16 larger(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] > b.part[i] ? a.part[i] : b.part[i]; });
}
// Lanes [0, n) of a, the rest of b.
inline F16 first_lanes(std::int64_t n, const F16& a, const F16& b) {
  alignas(64) static constexpr std::int32_t kNumbers[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                                8, 9, 10, 11, 12, 13, 14, 15};
  return each([&](int i) {
    const I numbers = *reinterpret_cast<const I*>(kNumbers + i * kWidth);
    return numbers < static_cast<std::int32_t>(n) ? a.part[i] : b.part[i];
  });
}

// One tree for every sum over lanes.
inline float sum(const F16& x) {
  alignas(64) float lanes[kLanes];
  store16(lanes, x);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}
inline float largest(const F16& x) {
  alignas(64) float lanes[kLanes];
  store16(lanes, x);
  float out = lanes[0];
  for (int i = 1; i < kLanes; ++i) out = lanes[i] > out ? lanes[i] : out;
  return out;
}

// e^x within 1.1 ulp. x = n ln 2 + r with ln 2 in two parts, so that n times the first is exact,
// and a polynomial in r. Below e^-87.33 (the smallest normal float) the result is 0, above 2^127.5
// it is infinite; NaN stays NaN. Denormals are cut off because they cost a hundred cycles each and
// mean nothing in a softmax.
inline V exp(V x) {
  constexpr float kLog2E = 1.44269504088896341f, kLn2High = 0.693359375f,
                  kLn2Low = -2.12194440054690583e-4f;
  constexpr float kLowest = -87.33654475f, kHighest = 88.37626266f;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  constexpr float kRounder = 12582912.0f;
  const V shifted = fma(x, splat(kLog2E), splat(kRounder));
  const V n = shifted - kRounder;
  V r = fma(n, splat(-kLn2High), x);
  r = fma(n, splat(-kLn2Low), r);
  V p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + 1.0f;
  const V power = as_float((as_bits(shifted) << 23) + 0x3f800000u);
  V e = p * power;
  e = x < kLowest ? splat(0) : e;
  return x > kHighest ? splat(__builtin_inff()) : e;
}
inline F16 exp(const F16& x) {
  return each([&](int i) { return exp(x.part[i]); });
}
// 1 / (1 + e^-x)
inline F16 sigmoid(const F16& x) {
  return each([&](int i) { return 1.0f / (1.0f + exp(-x.part[i])); });
}

// bf16 to nearest even, left in the upper half of each lane; NaN stays NaN.
inline U round_bf16(V x) {
  const U bits = as_bits(x);
  const U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return x == x ? rounded : ((bits | 0x00400000u) & 0xffff0000u);
}
// One register of floats as bf16.
using Halves = std::uint16_t __attribute__((vector_size(kWidth * 2), may_alias));
#if defined(__AVX512BF16__)
// The instruction takes denormal numbers for zero, as the product does that reads the result.
inline Halves to_bf16(V x) { return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(x)); }
// Two bf16 in one word, `low` first in memory.
inline U pair_bf16(V low, V high) {
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  const __m512i alternate =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return reinterpret_cast<U>(_mm512_permutexvar_epi16(alternate, both));
}
#else
inline Halves to_bf16(V x) { return __builtin_convertvector(round_bf16(x) >> 16, Halves); }
// Two bf16 in one word, `low` first in memory.
inline U pair_bf16(V low, V high) { return round_bf16(low) >> 16 | round_bf16(high); }
#endif

inline std::uint32_t round_bf16(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  if (x != x) return (bits | 0x00400000u) & 0xffff0000u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
}
inline std::uint32_t pair_bf16(float low, float high) {
  return round_bf16(low) >> 16 | round_bf16(high);
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
