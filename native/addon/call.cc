#include "native/addon/call.h"

#include <utility>

#include "native/addon/environment.h"

namespace hindsearch {

Call::Call(Environment& environment)
    : channel_(environment.channel()), deferred_(Napi::Promise::Deferred::New(environment.env())) {}

void Call::fail(std::exception_ptr failure) { failure_ = std::move(failure); }

}  // namespace hindsearch
