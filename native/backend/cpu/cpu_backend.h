// The CPU backend on a chosen instruction set, for tests; everyone else calls make_backend.
#pragma once

#include <memory>

#include "native/backend/cpu/kernels.h"

namespace hindsearch::cpu {

std::unique_ptr<Backend> make_cpu_backend(ComputeType compute, const Kernels& kernels);

}  // namespace hindsearch::cpu
