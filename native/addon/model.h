// The NativeModel class of lib/native/model.ts.
#pragma once

#include <memory>
#include <vector>

#include "native/addon/cancellation.h"
#include "native/addon/node_api.h"
#include "native/addon/shared_model.h"

namespace hindsearch {

class JsModel {
 public:
  static constexpr const char* kName = "NativeModel";
  static std::vector<napi_property_descriptor> members();
  // Wraps a model that the engine's thread has just made.
  static Napi::Object create(Napi::Env env, std::shared_ptr<SharedModel> shared);

  explicit JsModel(std::shared_ptr<SharedModel> shared) : shared_(std::move(shared)) {}
  void finalize(Napi::Env env) noexcept { release(env); }

  // Throws Error(DISPOSED).
  const std::shared_ptr<SharedModel>& shared() const;

  Napi::Value frozen(const Napi::CallbackInfo& info);
  Napi::Value version(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value compute(const Napi::CallbackInfo& info);
  Napi::Value parameters(const Napi::CallbackInfo& info);
  Napi::Value optimizer_step(const Napi::CallbackInfo& info);
  Napi::Value snapshot(const Napi::CallbackInfo& info);
  Napi::Value score(const Napi::CallbackInfo& info);
  Napi::Value forward_backward(const Napi::CallbackInfo& info);
  Napi::Value gradient_norm(const Napi::CallbackInfo& info);
  Napi::Value zero_gradients(const Napi::CallbackInfo& info);
  Napi::Value step(const Napi::CallbackInfo& info);
  Napi::Value weight(const Napi::CallbackInfo& info);
  Napi::Value gradient(const Napi::CallbackInfo& info);
  Napi::Value logits(const Napi::CallbackInfo& info);
  Napi::Value save(const Napi::CallbackInfo& info);
  Napi::Value load_arena(const Napi::CallbackInfo& info);
  Napi::Value set_optimizer_step(const Napi::CallbackInfo& info);
  Napi::Value dispose(const Napi::CallbackInfo& info);

 private:
  // The only way the memory goes, whether by dispose() or by the garbage collector.
  void release(Napi::Env env) noexcept;
  // Runs `work(model, cancel flag)` on the engine's thread.
  template <class Work, class ToJs>
  Napi::Promise run(const Napi::CallbackInfo& info, Cancellation* cancellation, Work work,
                    ToJs to_js);

  std::shared_ptr<SharedModel> shared_;  // null once released
};

// (config, compute, seed, standardDeviation) => Promise<NativeModel>
Napi::Value initialize_model(const Napi::CallbackInfo& info);
// (config, compute, tensors, cancellation?) => Promise<NativeModel>
Napi::Value load_model(const Napi::CallbackInfo& info);

}  // namespace hindsearch
