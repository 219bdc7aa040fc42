// What kernels call: barriers, warp operations, atomics and arithmetic.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "native/test/cuda_host/host_model.h"

inline void __syncthreads(const host_model::Location& where = host_model::Location::current()) {
  host_model::sync_block(where);
}
inline void __syncwarp(unsigned mask = 0xffffffff,
                       const host_model::Location& where = host_model::Location::current()) {
  host_model::sync_warp(
      mask, nullptr, [](unsigned, void* const*) {}, "__syncwarp", where);
}
// One thread, in program order: nothing to do.
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace host_model {

// Lane `source` of the group of `width` lanes around this one; -1: the lane's own value.
template <class T>
T shuffle(unsigned mask, T value, int source, const char* what, const Location& where) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "the device shuffles 4 and 8 bytes");
  struct Payload {
    T in, out;
    int source;
  } payload{value, value, source};
  sync_warp(
      mask, &payload,
      [](unsigned lanes, void* const* payloads) {
        for (unsigned i = 0; i < 32; ++i) {
          if (!(lanes >> i & 1)) continue;
          auto& own = *static_cast<Payload*>(payloads[i]);
          if (own.source < 0) continue;
          if (lanes >> own.source & 1) {
            own.out = static_cast<Payload*>(payloads[own.source])->in;
          } else {  // a lane that takes no part: undefined
            const std::uint64_t unwritten = 0x0001000100010001u * kUnwritten;
            std::memcpy(&own.out, &unwritten, sizeof(T));
          }
        }
      },
      what, where);
  return payload.out;
}

// Bits of the lanes whose predicate holds.
unsigned ballot(unsigned mask, bool predicate, const char* what, const Location& where);

template <class T>
T atomic_update(T* address, auto&& update) {
  T before = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &before, static_cast<T>(update(before)), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}

}  // namespace host_model

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const host_model::Location& where = host_model::Location::current()) {
  const int lane = static_cast<int>(host_model::lane());
  return host_model::shuffle(mask, value, (lane & ~(width - 1)) + (source & (width - 1)),
                             "__shfl_sync", where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const host_model::Location& where = host_model::Location::current()) {
  const int lane = static_cast<int>(host_model::lane());
  const int source = lane - static_cast<int>(delta);
  return host_model::shuffle(mask, value, source < (lane & ~(width - 1)) ? -1 : source,
                             "__shfl_up_sync", where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const host_model::Location& where = host_model::Location::current()) {
  const int lane = static_cast<int>(host_model::lane());
  const int source = lane + static_cast<int>(delta);
  return host_model::shuffle(mask, value, source > (lane | (width - 1)) ? -1 : source,
                             "__shfl_down_sync", where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  const host_model::Location& where = host_model::Location::current()) {
  const int lane = static_cast<int>(host_model::lane());
  // Groups before the own may be read, those after it not.
  const int source = lane ^ bits;
  return host_model::shuffle(mask, value, source > (lane | (width - 1)) ? -1 : source,
                             "__shfl_xor_sync", where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const host_model::Location& where = host_model::Location::current()) {
  return host_model::ballot(mask, predicate != 0, "__ballot_sync", where);
}
inline int __any_sync(unsigned mask, int predicate,
                      const host_model::Location& where = host_model::Location::current()) {
  return host_model::ballot(mask, predicate != 0, "__any_sync", where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      const host_model::Location& where = host_model::Location::current()) {
  return host_model::ballot(mask, predicate != 0, "__all_sync", where) == mask;
}

// Of int, unsigned, unsigned long long; addition of float too.
inline int atomicAdd(int* address, int value) {
  return host_model::atomic_update(address, [&](int x) {
    return static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(value));
  });
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline float atomicAdd(float* address, float value) {
  const unsigned before = host_model::atomic_update(
      reinterpret_cast<unsigned __attribute__((may_alias))*>(address),
      [&](unsigned x) { return std::bit_cast<unsigned>(std::bit_cast<float>(x) + value); });
  return std::bit_cast<float>(before);
}
#define HOST_MODEL_ATOMICS(type)                                                              \
  inline type atomicMax(type* address, type value) {                                          \
    return host_model::atomic_update(address, [&](type x) { return x > value ? x : value; }); \
  }                                                                                           \
  inline type atomicMin(type* address, type value) {                                          \
    return host_model::atomic_update(address, [&](type x) { return x < value ? x : value; }); \
  }                                                                                           \
  inline type atomicExch(type* address, type value) {                                         \
    return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);                             \
  }                                                                                           \
  inline type atomicOr(type* address, type value) {                                           \
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);                               \
  }                                                                                           \
  inline type atomicAnd(type* address, type value) {                                          \
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);                              \
  }                                                                                           \
  inline type atomicCAS(type* address, type expected, type value) {                           \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED,           \
                                __ATOMIC_RELAXED);                                            \
    return expected;                                                                          \
  }
HOST_MODEL_ATOMICS(int)
HOST_MODEL_ATOMICS(unsigned)
HOST_MODEL_ATOMICS(unsigned long long)
#undef HOST_MODEL_ATOMICS

template <class T>
T __ldg(const T* address) {
  return *address;
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1) << (31 - i);
  return y;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float exp10f(float x) { return std::pow(10.0f, x); }
// The C library declares these names for itself.
#define __expf(x) (std::exp(static_cast<float>(x)))
#define __logf(x) (std::log(static_cast<float>(x)))
#define __log2f(x) (std::log2(static_cast<float>(x)))
#define __sinf(x) (std::sin(static_cast<float>(x)))
#define __cosf(x) (std::cos(static_cast<float>(x)))
#define __powf(x, y) (std::pow(static_cast<float>(x), static_cast<float>(y)))

#define HOST_MODEL_EXTREMES(type)                              \
  constexpr type min(type a, type b) { return b < a ? b : a; } \
  constexpr type max(type a, type b) { return a < b ? b : a; }
HOST_MODEL_EXTREMES(int)
HOST_MODEL_EXTREMES(unsigned)
HOST_MODEL_EXTREMES(long)
HOST_MODEL_EXTREMES(unsigned long)
HOST_MODEL_EXTREMES(long long)
HOST_MODEL_EXTREMES(unsigned long long)
#undef HOST_MODEL_EXTREMES
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
