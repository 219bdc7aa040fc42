#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "native/addon/node_api.h"

namespace hindsearch {

class Call;

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

}  // namespace hindsearch
