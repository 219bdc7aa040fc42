// Only the bf16 product differs from plain AVX-512.
#define HINDSEARCH_ISA avx512bf16
#include "native/backend/cpu/gemm_kernels.h"
#include "native/backend/cpu/isa.h"

namespace hindsearch::cpu {

extern constinit const GemmKernels kAvx512Bf16Gemm =
    avx512bf16::gemm_kernels<avx512bf16::Bf16Operands>();

}  // namespace hindsearch::cpu
