#pragma once

#include <exception>

#include "native/addon/node_api.h"

namespace hindsearch {

// The one translator from C++ exceptions to JavaScript errors. The result is a plain Error with a
// `code` property; lib/native turns it into a HindsearchError. A JavaScript exception that passed
// through C++ comes out unchanged; std::bad_alloc is OUT_OF_MEMORY; what we did not foresee is
// INTERNAL. JavaScript thread only.
Napi::Error to_js_error(Napi::Env env, std::exception_ptr failure);

}  // namespace hindsearch
