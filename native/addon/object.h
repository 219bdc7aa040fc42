// C++ objects inside JavaScript objects.
//
// A class T has kName, members() and, if its end has to be told to somebody, finalize(env). Every
// method checks the tag of its receiver, so that a foreign object is an error and not a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "native/addon/arguments.h"
#include "native/addon/environment.h"
#include "native/addon/js_error.h"
#include "native/addon/node_api.h"

namespace hindsearch {

// Runs the body of a function called by JavaScript; whatever it throws becomes a JavaScript
// exception.
template <class Body>
napi_value guarded(napi_env env, Body body) {
  try {
    return body();
  } catch (...) {
    try {
      to_js_error(env, std::current_exception()).ThrowAsJavaScriptException();
    } catch (...) {
      // The environment is being terminated and takes no more exceptions.
    }
    return nullptr;
  }
}

// Made of an address, so that it differs between classes and between two copies of this addon.
template <class T>
const napi_type_tag* tag_of() {
  static char anchor = 0;
  static const napi_type_tag tag{reinterpret_cast<std::uintptr_t>(&anchor), 0x68696e6473656172};
  return &tag;
}

// A new object of class T; the garbage collector owns it.
template <class T>
Napi::Object wrap(Napi::Env env, std::unique_ptr<T> native) {
  Napi::Object object = Environment::of(env).construct(tag_of<T>(), T::kName, &T::members);
  const auto finalize = [](napi_env env, void* native, void*) {
    const std::unique_ptr<T> owner(static_cast<T*>(native));
    if constexpr (requires { owner->finalize(Napi::Env(env)); }) owner->finalize(Napi::Env(env));
  };
  if (napi_wrap(env, object, native.get(), finalize, nullptr, nullptr) != napi_ok) {
    throw Napi::Error::New(env);
  }
  native.release();
  return object;
}

template <class T>
T& unwrap(const Argument& argument) {
  const Napi::Value value = argument.value();
  void* native = nullptr;
  if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(tag_of<T>()) ||
      napi_unwrap(value.Env(), value, &native) != napi_ok) {
    argument.refuse(std::string("a ") + T::kName + " of this addon");
  }
  return *static_cast<T*>(native);
}

namespace detail {

template <class>
struct ReceiverOf;
template <class T>
struct ReceiverOf<Napi::Value (T::*)(const Napi::CallbackInfo&)> {
  using Type = T;
};

template <auto kMember>
napi_value call_member(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Napi::CallbackInfo arguments(env, info);
    using Receiver = typename ReceiverOf<decltype(kMember)>::Type;
    return (unwrap<Receiver>(Argument(arguments.This(), "this")).*kMember)(arguments);
  });
}

template <auto kFunction>
napi_value call_function(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value { return kFunction(Napi::CallbackInfo(env, info)); });
}

}  // namespace detail

template <auto kMember>
napi_property_descriptor method(const char* name) {
  return {name,    nullptr, detail::call_member<kMember>, nullptr,
          nullptr, nullptr, napi_default_method,          nullptr};
}

template <auto kMember>
napi_property_descriptor getter(const char* name) {
  return {name,    nullptr, nullptr,      detail::call_member<kMember>,
          nullptr, nullptr, napi_default, nullptr};
}

template <auto kFunction>
napi_property_descriptor function(const char* name) {
  return {
      name,   nullptr, detail::call_function<kFunction>, nullptr, nullptr, nullptr, napi_enumerable,
      nullptr};
}

}  // namespace hindsearch
