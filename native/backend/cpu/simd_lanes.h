// Which of sixteen lanes pass a comparison, and their sums in double.
#pragma once

#include "native/backend/cpu/simd.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

// Bit i: lane i of a is at least lane i of b.
inline std::uint32_t at_least(V a, V b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
#elif defined(__SSE2__)
  return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_cmpge_ps(a, b)));
#elif defined(__aarch64__)
  alignas(16) static constexpr std::uint32_t kBits[4] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(vcgeq_f32(a, b), vld1q_u32(kBits)));
#else
  std::uint32_t bits = 0;
  for (int i = 0; i < kWidth; ++i) bits |= std::uint32_t{a[i] >= b[i]} << i;
  return bits;
#endif
}
inline std::uint32_t at_least(const F16& a, const F16& b) {
  std::uint32_t bits = 0;
  HINDSEARCH_UNROLL
  for (int i = 0; i < kParts; ++i) bits |= at_least(a.part[i], b.part[i]) << (i * kWidth);
  return bits;
}

// to[0..] = the lanes of x whose bit is set, in order. All sixteen may be written: a store under a
// mask, or of few lanes one by one, takes longer than what it would spare.
inline void store_lanes(float* to, std::uint32_t lanes, const F16& x) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(static_cast<__mmask16>(lanes), x.part[0]));
#else
  if (lanes == 0xffffu) return store16(to, x);
  alignas(64) float all[kLanes];
  store16(all, x);
  for (; lanes != 0; lanes &= lanes - 1) *to++ = all[__builtin_ctz(lanes)];
#endif
}
// The same for the numbers first, first + 1, ... of the lanes.
inline void store_numbers(std::int32_t* to, std::uint32_t lanes, std::int32_t first) {
#if defined(__AVX512F__)
  const __m512i numbers =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                       _mm512_set1_epi32(first));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(lanes), numbers));
#else
  if (lanes == 0xffffu) {
    for (int i = 0; i < kLanes; ++i) to[i] = first + i;
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) *to++ = first + __builtin_ctz(lanes);
#endif
}

// Half a register of floats as doubles.
using D = double __attribute__((vector_size(kWidth * 4)));
inline D low_half(V v) {
#if defined(__AVX512F__)
  // Casts and unmasked forms warn in gcc 12.
  return _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, v, 0));
#elif defined(__AVX2__)
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
#elif defined(__SSE2__)
  return _mm_cvtps_pd(v);
#elif defined(__aarch64__)
  return vcvt_f64_f32(vget_low_f32(v));
#else
  D out;
  for (int i = 0; i < kWidth / 2; ++i) out[i] = static_cast<double>(v[i]);
  return out;
#endif
}
inline D high_half(V v) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, v, 1));
#elif defined(__AVX2__)
  return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
#elif defined(__SSE2__)
  return _mm_cvtps_pd(_mm_movehl_ps(v, v));
#elif defined(__aarch64__)
  return vcvt_high_f64_f32(v);
#else
  D out;
  for (int i = 0; i < kWidth / 2; ++i) out[i] = static_cast<double>(v[kWidth / 2 + i]);
  return out;
#endif
}

// Sixteen running sums. Like the sums in float, one order for every instruction set.
struct DoubleSum {
  D low[kParts]{}, high[kParts]{};

  void add(const F16& x) {
    HINDSEARCH_UNROLL
    for (int i = 0; i < kParts; ++i) {
      low[i] = low[i] + low_half(x.part[i]);
      high[i] = high[i] + high_half(x.part[i]);
    }
  }
  double total() const {
    alignas(64) double lanes[kLanes];
    for (int i = 0; i < kParts; ++i) {
      for (int j = 0; j < kWidth / 2; ++j) {
        lanes[i * kWidth + j] = low[i][j];
        lanes[i * kWidth + kWidth / 2 + j] = high[i][j];
      }
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
  }
};

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
