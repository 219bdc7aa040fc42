#define HINDSEARCH_ISA avx512
#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/isa_kernels.h"

namespace hindsearch::cpu {
namespace {
constexpr GemmKernels kF32 = avx512::gemm_kernels<avx512::F32Operands>();
constexpr GemmKernels kBf16 = avx512::gemm_kernels<avx512::WidenedOperands>();
constexpr RowKernels kRows = avx512::row_kernels();
}  // namespace

extern constinit const Kernels kAvx512 = {"avx512", &kF32, &kBf16, &kRows};

}  // namespace hindsearch::cpu
