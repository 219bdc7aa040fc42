#include "native/addon/js_error.h"

#include <new>
#include <string>
#include <string_view>

#include "native/core/error.h"

namespace hindsearch {
namespace {

Napi::Error coded_error(Napi::Env env, std::string_view code, const std::string& message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, code.data(), code.size()));
  return error;
}

}  // namespace

Napi::Error to_js_error(Napi::Env env, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Napi::Error& error) {
    return error;
  } catch (const Error& error) {
    return coded_error(env, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return coded_error(
        env, code::kOutOfMemory,
        "The native engine could not allocate memory. Use a smaller batch, a smaller "
        "model or a shorter sequence, or dispose of models no longer needed.");
  } catch (const std::exception& error) {
    return coded_error(env, code::kInternal, error.what());
  } catch (...) {
    return coded_error(env, code::kInternal,
                       "The native engine threw a value that is no exception.");
  }
}

}  // namespace hindsearch
