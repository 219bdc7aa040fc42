#pragma once

#include <memory>
#include <vector>

#include "native/addon/call.h"
#include "native/addon/environment.h"
#include "native/addon/node_api.h"
#include "native/addon/object.h"

namespace hindsearch {

// Ends a call when a user's AbortSignal fires: lib/native connects the two.
class Cancellation {
 public:
  static constexpr const char* kName = "Cancellation";
  static Napi::Object create(Napi::Env env);
  static std::vector<napi_property_descriptor> members();

  // Ends `call` when cancel() is called, at once if it has been.
  void attach(Environment& environment, const std::shared_ptr<Call>& call);
  Napi::Value cancel(const Napi::CallbackInfo& info);

 private:
  bool cancelled_ = false;
  std::weak_ptr<Call> call_;
};

// The optional last argument of the long calls.
inline Cancellation* read_cancellation(Napi::Value value) {
  const Argument argument(value, "cancellation");
  return argument.given() ? &unwrap<Cancellation>(argument) : nullptr;
}

}  // namespace hindsearch
