// A model as two threads see it: the engine's computes with it, JavaScript's knows a few numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "native/addon/external_memory.h"
#include "native/addon/node_api.h"
#include "native/model/model.h"

namespace hindsearch {

class SharedModel {
 public:
  // Engine's thread.
  explicit SharedModel(std::shared_ptr<Model> model) : model_(std::move(model)) { publish(); }

  // The model itself belongs to the engine's thread. The JavaScript thread may ask for what never
  // changes: config, layout, compute, frozen.
  Model& model() const { return *model_; }
  const std::shared_ptr<Model>& owner() const { return model_; }

  // Engine's thread, after every job: makes the numbers below current.
  void publish() {
    version_ = model_->version();
    bytes_ = model_->bytes();
    optimizer_step_ = model_->optimizer_step();
  }

  std::uint64_t version() const { return version_; }
  std::size_t bytes() const { return bytes_; }
  std::int64_t optimizer_step() const { return optimizer_step_; }

  // JavaScript thread, after every job: gradients and moments appear as they are needed.
  void account(Napi::Env env) {
    if (held_) memory_.set(env, bytes_);
  }
  // JavaScript thread: no JavaScript object holds this model any more.
  void let_go(Napi::Env env) {
    held_ = false;
    memory_.set(env, 0);
  }

 private:
  const std::shared_ptr<Model> model_;
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::int64_t> optimizer_step_{0};
  ExternalMemory memory_;
  bool held_ = true;
};

}  // namespace hindsearch
