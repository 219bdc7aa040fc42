// From C++ results to JavaScript values. JavaScript thread only.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "native/addon/node_api.h"

namespace hindsearch {

inline Napi::Float32Array to_js(Napi::Env env, const std::vector<float>& numbers) {
  auto array = Napi::Float32Array::New(env, numbers.size());
  if (!numbers.empty()) std::memcpy(array.Data(), numbers.data(), numbers.size() * sizeof(float));
  return array;
}

inline Napi::Int32Array to_js(Napi::Env env, const std::vector<std::int32_t>& numbers) {
  auto array = Napi::Int32Array::New(env, numbers.size());
  if (!numbers.empty())
    std::memcpy(array.Data(), numbers.data(), numbers.size() * sizeof(std::int32_t));
  return array;
}

inline Napi::Value floats_to_js(Napi::Env env, const std::vector<float>& numbers) {
  return to_js(env, numbers);
}

}  // namespace hindsearch
