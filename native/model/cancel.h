#pragma once

#include <atomic>
#include <string>

#include "native/core/error.h"

namespace hindsearch {

// Set by another thread to end a long call, which then throws Error(ABORTED).
using CancelFlag = std::atomic<bool>;

inline void check_cancelled(const CancelFlag* cancel, const char* call) {
  if (cancel && cancel->load(std::memory_order_relaxed)) {
    throw Error(code::kAborted, std::string(call) + " was aborted");
  }
}

}  // namespace hindsearch
