// Work for the engine's thread that a JavaScript function starts and whose result it promises.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "native/addon/call.h"
#include "native/addon/cancellation.h"
#include "native/addon/environment.h"
#include "native/addon/node_api.h"
#include "native/core/engine.h"

namespace hindsearch {
namespace detail {

template <class Work, class ToJs>
class WorkCall final : public Call {
  using Returned = std::invoke_result_t<Work&, const CancelFlag*>;
  using Result = std::conditional_t<std::is_void_v<Returned>, std::monostate, Returned>;

 public:
  WorkCall(Environment& environment, Work work, ToJs to_js)
      : Call(environment), work_(std::move(work)), to_js_(std::move(to_js)) {}

  void execute() {
    if (!claim()) return;
    try {
      if constexpr (std::is_void_v<Returned>) {
        (*work_)(&cancelled());
        result_.emplace();
      } else {
        result_.emplace((*work_)(&cancelled()));
      }
    } catch (...) {
      fail(std::current_exception());
    }
    // Here and not with the call: the inputs may be large, and the model's last owner may be among
    // them, which the JavaScript thread should not have to free.
    work_.reset();
    finish();
  }

 private:
  std::optional<Napi::Value> value(Napi::Env env) override {
    if constexpr (std::is_void_v<Returned>) {
      return to_js_(env);
    } else {
      return to_js_(env, std::move(*result_));
    }
  }

  std::optional<Work> work_;
  ToJs to_js_;
  std::optional<Result> result_;
};

}  // namespace detail

// Runs result = work(cancel flag) on the engine's thread and resolves with to_js(env, result). Both
// own what they use: no JavaScript value may be captured.
template <class Work, class ToJs>
Napi::Promise run_on_engine(const Napi::CallbackInfo& info, Cancellation* cancellation, Work work,
                            ToJs to_js) {
  Environment& environment = Environment::of(info.Env());
  auto call = std::make_shared<detail::WorkCall<Work, ToJs>>(environment, std::move(work),
                                                             std::move(to_js));
  // First the step that can fail for want of memory, so that no promise stays open for ever.
  engine().post([call] { call->execute(); });
  Napi::Promise promise = environment.open(call, info.This());
  if (cancellation != nullptr) cancellation->attach(environment, call);
  return promise;
}

}  // namespace hindsearch
