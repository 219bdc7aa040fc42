// Qualifiers of functions and the vector types.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

#define HOST_MODEL_VECTORS(type, name, align2, align4)                           \
  struct name##2 { type x, y; }                                                  \
  __attribute__((aligned(align2)));                                              \
  struct name##3 { type x, y, z; };                                              \
  struct name##4 { type x, y, z, w; }                                            \
  __attribute__((aligned(align4)));                                              \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

HOST_MODEL_VECTORS(float, float, 8, 16)
HOST_MODEL_VECTORS(double, double, 16, 16)
HOST_MODEL_VECTORS(int, int, 8, 16)
HOST_MODEL_VECTORS(unsigned int, uint, 8, 16)
HOST_MODEL_VECTORS(short, short, 4, 8)
HOST_MODEL_VECTORS(unsigned short, ushort, 4, 8)
HOST_MODEL_VECTORS(unsigned char, uchar, 2, 4)
HOST_MODEL_VECTORS(long long, longlong, 16, 16)
#undef HOST_MODEL_VECTORS

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)  // NOLINT
      : x(x_), y(y_), z(z_) {}
};
