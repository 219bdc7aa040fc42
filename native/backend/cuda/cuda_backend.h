#pragma once

#include <memory>
#include <string>

#include "native/backend/backend.h"

namespace hindsearch::cuda {

// The backend on the first CUDA device. Throws Error(DEVICE_UNAVAILABLE) where there is none that can
// be used, or no cuBLAS; the message says what to install.
std::unique_ptr<Backend> make_cuda_backend(ComputeType compute);

}  // namespace hindsearch::cuda
