#pragma once

#include <cstddef>
#include <cstdint>

#include "native/addon/node_api.h"

namespace hindsearch {

// The memory behind a JavaScript object, as far as V8 has been told. V8 sees only a tiny wrapper
// and would let gigabytes pile up before it collects. JavaScript thread only.
class ExternalMemory {
 public:
  void set(napi_env env, std::size_t bytes) {
    std::int64_t total = 0;
    napi_adjust_external_memory(env, static_cast<std::int64_t>(bytes) - told_, &total);
    told_ = static_cast<std::int64_t>(bytes);
  }

 private:
  std::int64_t told_ = 0;
};

}  // namespace hindsearch
