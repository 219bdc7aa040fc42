// One JavaScript environment (the main thread or a worker) and its promises.
//
// Work goes to the engine's thread as a Call; its result comes back through one thread-safe
// function per environment. The engine never touches a JavaScript value, and nothing of the
// environment except the Channel, which outlives it.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "native/addon/call.h"
#include "native/addon/channel.h"
#include "native/addon/node_api.h"

namespace hindsearch {

class Environment {
 public:
  explicit Environment(Napi::Env env);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  Napi::Env env() const { return env_; }

  // JavaScript thread. An open call keeps the process alive, and its receiver from being collected.
  Napi::Promise open(const std::shared_ptr<Call>& call, Napi::Value receiver);
  bool is_open(const std::shared_ptr<Call>& call) const { return open_.contains(call); }
  // JavaScript thread, after claim(): settles it now.
  void settle(const std::shared_ptr<Call>& call);
  // Asks the engine to end the call soon; one it has not begun is rejected with ABORTED at once.
  void cancel(const std::shared_ptr<Call>& call);

  std::shared_ptr<Channel> channel() const { return channel_; }

  // A new, empty JavaScript object of the class that `tag` names; see object.h.
  Napi::Object construct(const napi_type_tag* tag, const char* name,
                         std::vector<napi_property_descriptor> (*members)());

 private:
  static void on_wake(napi_env env, napi_value, void* self, void*);
  static void on_cleanup(void* self);
  static napi_value on_construct(napi_env env, napi_callback_info info);

  const Napi::Env env_;
  const std::shared_ptr<Channel> channel_ = std::make_shared<Channel>();
  napi_threadsafe_function wake_ = nullptr;
  std::unordered_map<std::shared_ptr<Call>, Napi::ObjectReference> open_;
  std::vector<std::pair<const napi_type_tag*, Napi::FunctionReference>> classes_;
  bool constructing_ = false;
};

}  // namespace hindsearch
