// Which instruction set this process uses.
#pragma once

#include <string_view>
#include <vector>

#include "native/backend/cpu/kernels.h"

namespace hindsearch::cpu {

extern const Kernels kPortable;
#if defined(HINDSEARCH_X86)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
extern const GemmKernels kAvx512Bf16Gemm;
#endif

// What this processor and operating system can run, best first.
std::vector<const Kernels*> supported_kernels();

// The best of them, or the one that `name` (avx512-bf16, avx512, avx2 or portable) asks for. Throws
// Error(INVALID_ARGUMENT) for another name or one this machine cannot run.
const Kernels& find_kernels(std::string_view name);

// find_kernels of the environment variable HINDSEARCH_ISA, read once.
const Kernels& active_kernels();

}  // namespace hindsearch::cpu
