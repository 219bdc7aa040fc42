#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "native/addon/channel.h"
#include "native/addon/node_api.h"
#include "native/model/cancel.h"

namespace hindsearch {

class Environment;

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

}  // namespace hindsearch
