#include "native/addon/cancellation.h"

namespace hindsearch {

Napi::Object Cancellation::create(Napi::Env env) {
  return wrap(env, std::make_unique<Cancellation>());
}

std::vector<napi_property_descriptor> Cancellation::members() {
  return {method<&Cancellation::cancel>("cancel")};
}

void Cancellation::attach(Environment& environment, const std::shared_ptr<Call>& call) {
  call_ = call;
  if (cancelled_) environment.cancel(call);
}

Napi::Value Cancellation::cancel(const Napi::CallbackInfo& info) {
  cancelled_ = true;
  if (const std::shared_ptr<Call> call = call_.lock()) Environment::of(info.Env()).cancel(call);
  return info.Env().Undefined();
}

}  // namespace hindsearch
