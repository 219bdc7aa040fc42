// The tensor-core instruction that the kernels use.
#pragma once

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

// c[16 x 8] += a[16 x 16] b[16 x 8] by one warp, bf16 operands and f32 sums. With g = lane / 4 and
// t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"):
//   a: a[0] (g, 2t..2t+1)  a[1] (g + 8, 2t..2t+1)  a[2] (g, 2t+8..2t+9)  a[3] (g + 8, 2t+8..2t+9)
//   b: b[0] (2t..2t+1, g)  b[1] (2t+8..2t+9, g)
//   c: c[0], c[1] (g, 2t..2t+1)  c[2], c[3] (g + 8, 2t..2t+1)
// The lower index of a pair is in the low half. All 32 lanes take part.
__device__ inline void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2]) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  host_model::mma_16x8x16(c, a, b);
#endif
}

}  // namespace hindsearch::cuda
