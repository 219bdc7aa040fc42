#include "native/addon/environment.h"

#include "native/addon/js_error.h"
#include "native/core/error.h"

namespace hindsearch {

Environment::Environment(Napi::Env env) : env_(env) {
  const napi_status status =
      napi_create_threadsafe_function(env, nullptr, nullptr, Napi::String::New(env, "hindsearch"),
                                      0, 1, nullptr, nullptr, this, on_wake, &wake_);
  if (status != napi_ok) throw Napi::Error::New(env);
  napi_unref_threadsafe_function(env, wake_);
  channel_->wake_ = wake_;
  // Hooks run in reverse order: this one before the one by which Node closes the function above.
  napi_add_env_cleanup_hook(env, on_cleanup, this);
}

Napi::Promise Environment::open(const std::shared_ptr<Call>& call, Napi::Value receiver) {
  open_.emplace(call, Napi::Persistent(receiver.As<Napi::Object>()));
  if (open_.size() == 1) napi_ref_threadsafe_function(env_, wake_);
  return call->deferred_.Promise();
}

void Environment::settle(const std::shared_ptr<Call>& call) {
  try {
    if (call->failure_) {
      call->deferred_.Reject(to_js_error(env_, call->failure_).Value());
    } else {
      const std::optional<Napi::Value> value = call->value(env_);
      if (!value) return;
      call->deferred_.Resolve(*value);
    }
  } catch (...) {
    // The result does not fit into JavaScript, or the environment is being terminated, in which
    // case this fails as well and there is nobody left to tell.
    call->deferred_.Reject(to_js_error(env_, std::current_exception()).Value());
  }
  open_.erase(call);
  if (open_.empty()) napi_unref_threadsafe_function(env_, wake_);
}

void Environment::cancel(const std::shared_ptr<Call>& call) {
  call->cancelled_ = true;
  if (!call->claim()) return;
  call->fail(
      std::make_exception_ptr(Error(code::kAborted, "The call was aborted before it began.")));
  settle(call);
}

void Environment::on_wake(napi_env env, napi_value, void* self, void*) {
  if (env == nullptr) return;
  auto& environment = *static_cast<Environment*>(self);
  for (const std::shared_ptr<Call>& call : environment.channel_->take()) {
    try {
      const Napi::HandleScope scope(env);
      environment.settle(call);
    } catch (...) {
      // The environment is being terminated: see settle().
    }
  }
}

void Environment::on_cleanup(void* self) {
  auto& environment = *static_cast<Environment*>(self);
  environment.channel_->close();
  // What runs is asked to end, what waits will not begin. Nobody waits for either: the engine's
  // thread needs nothing of this environment any more.
  for (const auto& [call, receiver] : environment.open_) {
    call->cancelled_ = true;
    call->claim();
  }
  environment.open_.clear();
}

Napi::Object Environment::construct(const napi_type_tag* tag, const char* name,
                                    std::vector<napi_property_descriptor> (*members)()) {
  Napi::Function constructor;
  for (auto& [known, reference] : classes_) {
    if (known == tag) constructor = reference.Value();
  }
  if (constructor.IsEmpty()) {
    const std::vector<napi_property_descriptor> properties = members();
    napi_value created = nullptr;
    const napi_status status = napi_define_class(env_, name, NAPI_AUTO_LENGTH, on_construct, this,
                                                 properties.size(), properties.data(), &created);
    if (status != napi_ok) throw Napi::Error::New(env_);
    constructor = Napi::Function(env_, created);
    classes_.emplace_back(tag, Napi::Persistent(constructor));
  }
  constructing_ = true;
  napi_value created = nullptr;
  const napi_status status = napi_new_instance(env_, constructor, 0, nullptr, &created);
  constructing_ = false;
  if (status != napi_ok) throw Napi::Error::New(env_);
  Napi::Object object(env_, created);
  object.TypeTag(tag);
  return object;
}

napi_value Environment::on_construct(napi_env env, napi_callback_info info) {
  napi_value self = nullptr;
  void* environment = nullptr;
  napi_get_cb_info(env, info, nullptr, nullptr, &self, &environment);
  if (!static_cast<Environment*>(environment)->constructing_) {
    napi_throw_type_error(env, "INVALID_ARGUMENT",
                          "Illegal constructor: use the functions of the addon.");
  }
  return self;
}

}  // namespace hindsearch
