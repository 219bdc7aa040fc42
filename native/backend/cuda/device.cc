#include "native/backend/cuda/device.h"

#include <string>

#include "native/core/error.h"

namespace hindsearch::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // Also kept by the runtime, where the next launch would take it for its own.
  cudaGetLastError();
  const std::string words = std::string(what) +
                            " failed on the CUDA device: " + cudaGetErrorString(status) + " (" +
                            cudaGetErrorName(status) + ")";
  if (status == cudaErrorMemoryAllocation) {
    throw Error(code::kOutOfMemory, words + "; use a smaller model, batch or cache");
  }
  throw Error(code::kDeviceFailed,
              words +
                  "; if what follows fails too, start a new process, and if it fails there, "
                  "please report it");
}

}  // namespace hindsearch::cuda
