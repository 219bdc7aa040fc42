// The CUDA runtime as native/backend/cuda uses it, modelled on the host: found in place of the
// toolkit's header when the kernels are compiled by a C++ compiler. See host_model.h.
#pragma once

#include "native/test/cuda_host/device_functions.h"
#include "native/test/cuda_host/host_model.h"
#include "native/test/cuda_host/runtime_api.h"
#include "native/test/cuda_host/vectors.h"
