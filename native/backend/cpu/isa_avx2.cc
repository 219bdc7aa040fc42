#define HINDSEARCH_ISA avx2
#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/isa_kernels.h"

namespace hindsearch::cpu {
namespace {
constexpr GemmKernels kF32 = avx2::gemm_kernels<avx2::F32Operands>();
constexpr GemmKernels kBf16 = avx2::gemm_kernels<avx2::WidenedOperands>();
constexpr RowKernels kRows = avx2::row_kernels();
}  // namespace

extern constinit const Kernels kAvx2 = {"avx2", &kF32, &kBf16, &kRows};

}  // namespace hindsearch::cpu
