// What every file of this folder starts from: the CUDA runtime, launching a kernel, dynamic shared
// memory and bfloat16.
//
// The same sources are compiled for the host (native/test/cuda_host), where another
// <cuda_runtime.h> models the device; the few lines that differ are all in this file and in mma.h.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "native/backend/backend.h"

namespace hindsearch::cuda {

// Throws Error(OUT_OF_MEMORY) for lack of device memory and Error(DEVICE_FAILED) for everything
// else, with `what` and the runtime's own words.
void check(cudaError_t status, const char* what);

inline constexpr int kWarp = 32;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Starts kernel(arguments...) on `grid` blocks of `threads` threads, each block with `shared_bytes`
// of dynamic shared memory. An empty grid starts nothing.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, int threads,
            std::size_t shared_bytes, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  // Without being asked for, a block gets no more than this.
  constexpr std::size_t kPlain = 48 * 1024;
  if (shared_bytes > kPlain) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "a kernel's shared memory");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "a kernel");
}

// The block's dynamic shared memory, at a 16-byte boundary, uninitialised. Kernels use no other:
// its bounds and its first reads are what the host build watches. A host compiler that reads the
// toolkit's header compiles no kernels.
#if defined(__CUDACC__) || !defined(__CUDA_RUNTIME_H__)
template <class T>
__device__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char hindsearch_shared[];
  return reinterpret_cast<T*>(hindsearch_shared);
#else
  return static_cast<T*>(host_model::shared_bytes());
#endif
}
#endif

struct bf16 {
  std::uint16_t bits;
};

__host__ __device__ inline float bits_to_float(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}
__host__ __device__ inline std::uint32_t float_to_bits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return __builtin_bit_cast(std::uint32_t, x);
#endif
}

__host__ __device__ inline float to_float(float x) { return x; }
__host__ __device__ inline float to_float(bf16 x) {
  return bits_to_float(static_cast<std::uint32_t>(x.bits) << 16);
}

// Two floats rounded to nearest even, `low` in the low half: the register that mma takes.
__host__ __device__ inline std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  const auto round = [](float x) {
    const std::uint32_t bits = float_to_bits(x);
    // Rounding could carry a NaN into infinity; the device gives this NaN.
    if (x != x) return std::uint32_t{0x7fff};
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  return round(low) | round(high) << 16;
#endif
}
__host__ __device__ inline bf16 to_bf16(float x) {
  return {static_cast<std::uint16_t>(pack_bf16(x, 0))};
}

// 2^x to two units in the last place; what would be subnormal is 0.
__device__ inline float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0 : y;
#endif
}

// A float as the number type of a cache or an operand.
template <class T>
__host__ __device__ T narrow(float x);
template <>
__host__ __device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__host__ __device__ inline bf16 narrow<bf16>(float x) {
  return to_bf16(x);
}

}  // namespace hindsearch::cuda
