#pragma once

#include <cstddef>
#include <cstring>

#include "native/test/cuda_host/host_model.h"

namespace host_model {

inline void fill_unwritten(void* memory, std::size_t bytes) {
  auto* const to = static_cast<unsigned char*>(memory);
  std::size_t filled = bytes < 2 ? bytes : 2;
  std::memcpy(to, &kUnwritten, filled);
  while (filled < bytes) {
    const std::size_t more = filled < bytes - filled ? filled : bytes - filled;
    std::memcpy(to + filled, to, more);
    filled += more;
  }
}

}  // namespace host_model
