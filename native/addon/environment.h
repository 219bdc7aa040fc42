// One JavaScript environment (the main thread or a worker) and its promises.
//
// Work goes to the engine's thread as a Call; its result comes back through one thread-safe
// function per environment. The engine never touches a JavaScript value, and nothing of the
// environment except the Channel, which outlives it.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "native/addon/node_api.h"
#include "native/core/engine.h"
#include "native/model/model.h"

namespace hindsearch {

class Call;
class Environment;

// The way back from the engine's thread. At most one wake-up is under way at any time and every
// entry belongs to a promise, so the queue cannot outgrow the calls the user has open.
class Channel {
 public:
  // Any thread. Dropped when the environment is gone.
  void post(std::shared_ptr<Call> call);

 private:
  friend class Environment;
  std::vector<std::shared_ptr<Call>> take();
  void close();

  std::mutex mutex_;
  napi_threadsafe_function wake_ = nullptr;  // null: no environment at the other end
  std::vector<std::shared_ptr<Call>> settled_;
};

// A promise that the engine's thread fulfils. Whoever claims a call first settles it: the engine
// when its turn comes, or the JavaScript thread when it is cancelled before that.
class Call : public std::enable_shared_from_this<Call> {
 public:
  explicit Call(Environment& environment);
  virtual ~Call() = default;

  bool claim() { return !claimed_.exchange(true); }
  void reopen() { claimed_ = false; }
  const CancelFlag& cancelled() const { return cancelled_; }

  // Engine's thread, after claim(): hands the call to the JavaScript thread.
  void finish() { channel_->post(shared_from_this()); }
  void fail(std::exception_ptr failure);

 protected:
  // JavaScript thread, if the call has not failed. Nothing: the promise stays open, and the call
  // has been reopened.
  virtual std::optional<Napi::Value> value(Napi::Env env) = 0;

 private:
  friend class Environment;

  const std::shared_ptr<Channel> channel_;
  const Napi::Promise::Deferred deferred_;
  CancelFlag cancelled_{false};
  std::atomic<bool> claimed_{false};
  std::exception_ptr failure_;
};

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

  // Runs result = work(cancel flag) on the engine's thread and resolves with to_js(env, result).
  // Both own what they use: no JavaScript value may be captured.
  template <class Work, class ToJs>
  Napi::Promise run(const Napi::CallbackInfo& info, Cancellation* cancellation, Work work,
                    ToJs to_js);

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

// --- Implementation of the template ---

namespace detail {

struct Nothing {};

template <class Work, class ToJs>
class WorkCall final : public Call {
  using Returned = std::invoke_result_t<Work&, const CancelFlag*>;
  using Result = std::conditional_t<std::is_void_v<Returned>, Nothing, Returned>;

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

template <class Work, class ToJs>
Napi::Promise Environment::run(const Napi::CallbackInfo& info, Cancellation* cancellation,
                               Work work, ToJs to_js) {
  auto call =
      std::make_shared<detail::WorkCall<Work, ToJs>>(*this, std::move(work), std::move(to_js));
  // First the step that can fail for want of memory, so that no promise stays open for ever.
  engine().post([call] { call->execute(); });
  Napi::Promise promise = open(call, info.This());
  if (cancellation != nullptr) cancellation->attach(*this, call);
  return promise;
}

}  // namespace hindsearch
