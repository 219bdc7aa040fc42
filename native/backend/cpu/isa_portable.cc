#define HINDSEARCH_ISA portable
#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/isa_kernels.h"

namespace hindsearch::cpu {
namespace {
constexpr GemmKernels kF32 = portable::gemm_kernels<portable::F32Operands>();
constexpr GemmKernels kBf16 = portable::gemm_kernels<portable::WidenedOperands>();
constexpr RowKernels kRows = portable::row_kernels();
}  // namespace

extern constinit const Kernels kPortable = {"portable", &kF32, &kBf16, &kRows};

}  // namespace hindsearch::cpu
