#pragma once

#include <string>

#include "native/backend/backend.h"

namespace hindsearch::testing {

// Whether the program was linked with the CUDA backend, be it on a GPU or on the model of one.
inline bool on_gpu() { return std::string(instruction_set()) == "cuda"; }

}  // namespace hindsearch::testing
