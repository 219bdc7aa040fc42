#include "native/backend/cpu/isa.h"

#include <cstdlib>
#include <string>

#include "native/core/error.h"

namespace hindsearch::cpu {
namespace {

#if defined(HINDSEARCH_X86)
// The f32 tiles and all row kernels are those of plain AVX-512.
const Kernels& avx512_bf16() {
  static const Kernels kernels = {"avx512-bf16", kAvx512.f32, &kAvx512Bf16Gemm, kAvx512.rows};
  return kernels;
}
#endif

}  // namespace

std::vector<const Kernels*> supported_kernels() {
  std::vector<const Kernels*> found;
#if defined(HINDSEARCH_X86)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) found.push_back(&avx512_bf16());
  if (avx512) found.push_back(&kAvx512);
  if (avx2) found.push_back(&kAvx2);
#endif
  found.push_back(&kPortable);
  return found;
}

const Kernels& find_kernels(std::string_view name) {
  const auto supported = supported_kernels();
  if (name.empty()) return *supported.front();
  std::string names;
  for (const Kernels* kernels : supported) {
    if (kernels->name == name) return *kernels;
    names += std::string(names.empty() ? "" : ", ") + kernels->name;
  }
  throw Error(code::kInvalidArgument,
              "HINDSEARCH_ISA is \"" + std::string(name) + "\", but this machine can run " + names);
}

const Kernels& active_kernels() {
  static const Kernels& kernels = []() -> const Kernels& {
    const char* name = std::getenv("HINDSEARCH_ISA");
    return find_kernels(name ? name : "");
  }();
  return kernels;
}

}  // namespace hindsearch::cpu
