#include "native/addon/channel.h"

#include <utility>

namespace hindsearch {

void Channel::post(std::shared_ptr<Call> call) {
  const std::lock_guard lock(mutex_);
  if (wake_ == nullptr) return;
  settled_.push_back(std::move(call));
  // Under the mutex, so that close() cannot take the function away in between: Node frees it with
  // the environment, whoever still holds it.
  if (settled_.size() == 1) napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

std::vector<std::shared_ptr<Call>> Channel::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(settled_, {});
}

void Channel::close() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  settled_.clear();
}

}  // namespace hindsearch
