#include "native/addon/model.h"

#include <new>
#include <string>
#include <utility>

#include "native/addon/arguments.h"
#include "native/addon/js_values.h"
#include "native/addon/model_options.h"
#include "native/addon/model_results.h"
#include "native/addon/object.h"
#include "native/addon/run.h"
#include "native/core/error.h"

namespace hindsearch {
namespace {

Napi::Value nothing(Napi::Env env) { return env.Undefined(); }

Napi::Value create_js_model(Napi::Env env, std::shared_ptr<SharedModel> shared) {
  return JsModel::create(env, std::move(shared));
}

}  // namespace

std::vector<napi_property_descriptor> JsModel::members() {
  return {getter<&JsModel::frozen>("frozen"),
          getter<&JsModel::version>("version"),
          getter<&JsModel::bytes>("bytes"),
          getter<&JsModel::compute>("compute"),
          getter<&JsModel::parameters>("parameters"),
          getter<&JsModel::optimizer_step>("optimizerStep"),
          method<&JsModel::snapshot>("snapshot"),
          method<&JsModel::score>("score"),
          method<&JsModel::forward_backward>("forwardBackward"),
          method<&JsModel::gradient_norm>("gradientNorm"),
          method<&JsModel::zero_gradients>("zeroGradients"),
          method<&JsModel::step>("step"),
          method<&JsModel::weight>("weight"),
          method<&JsModel::gradient>("gradient"),
          method<&JsModel::logits>("logits"),
          method<&JsModel::save>("save"),
          method<&JsModel::load_arena>("loadArena"),
          method<&JsModel::set_optimizer_step>("setOptimizerStep"),
          method<&JsModel::dispose>("dispose")};
}

Napi::Object JsModel::create(Napi::Env env, std::shared_ptr<SharedModel> shared) {
  shared->account(env);
  return wrap(env, std::make_unique<JsModel>(std::move(shared)));
}

const std::shared_ptr<SharedModel>& JsModel::shared() const {
  if (!shared_) {
    throw Error(code::kDisposed,
                "The model has been disposed of. Load or initialize it again to use it.");
  }
  return shared_;
}

void JsModel::release(Napi::Env env) noexcept {
  if (!shared_) return;
  shared_->let_go(env);
  // Freed on the engine's thread, behind the jobs that still use it and before those posted from
  // now on, so that a model loaded next finds the memory free.
  try {
    engine().post([shared = shared_] {});
  } catch (const std::bad_alloc&) {
    // Then it is freed here.
  }
  shared_.reset();
}

template <class Work, class ToJs>
Napi::Promise JsModel::run(const Napi::CallbackInfo& info, Cancellation* cancellation, Work work,
                           ToJs to_js) {
  // Asked for after the arguments were read: a getter among them may have disposed of this model.
  const std::shared_ptr<SharedModel>& model = shared();
  return run_on_engine(
      info, cancellation,
      [model, work = std::move(work)](const CancelFlag* cancelled) mutable {
        struct Publish {
          SharedModel& model;
          ~Publish() { model.publish(); }  // also when the work throws
        } publish{*model};
        return work(model->model(), cancelled);
      },
      // Weak: the JavaScript thread should not be the last owner, who frees the memory.
      [weak = std::weak_ptr(model), to_js = std::move(to_js)](
          Napi::Env env, auto&&... result) mutable -> Napi::Value {
        if (const auto model = weak.lock()) model->account(env);
        return to_js(env, std::forward<decltype(result)>(result)...);
      });
}

Napi::Value JsModel::frozen(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), shared()->model().frozen());
}

Napi::Value JsModel::version(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(shared()->version()));
}

Napi::Value JsModel::bytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), shared_ ? static_cast<double>(shared_->bytes()) : 0);
}

Napi::Value JsModel::compute(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(),
                           shared()->model().compute() == ComputeType::f32 ? "f32" : "bf16");
}

Napi::Value JsModel::parameters(const Napi::CallbackInfo& info) {
  return parameters_to_js(info.Env(), shared()->model().layout().parameters());
}

Napi::Value JsModel::optimizer_step(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(shared()->optimizer_step()));
}

// () => Promise<NativeModel>
Napi::Value JsModel::snapshot(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr,
      [](Model& model, const CancelFlag*) {
        return std::make_shared<SharedModel>(model.snapshot());
      },
      create_js_model);
}

// (sequences, options, cancellation?) => Promise<NativeScore>
Napi::Value JsModel::score(const Napi::CallbackInfo& info) {
  return run(
      info, read_cancellation(info[2]),
      [sequences = read_sequences(Argument(info[0], "sequences")),
       options = read_score_options(Argument(info[1], "options"))](Model& model,
                                                                   const CancelFlag* cancelled) {
        return model.score(sequences, options, cancelled);
      },
      score_to_js);
}

// (sequences, objective, options, cancellation?) => Promise<NativeObjectiveResult>
Napi::Value JsModel::forward_backward(const Napi::CallbackInfo& info) {
  return run(
      info, read_cancellation(info[3]),
      [sequences = read_sequences(Argument(info[0], "sequences")),
       objective = read_objective(Argument(info[1], "objective")),
       options = read_train_options(Argument(info[2], "options"))](Model& model,
                                                                   const CancelFlag* cancelled) {
        return model.forward_backward(sequences, objective, options, cancelled);
      },
      objective_to_js);
}

// () => Promise<number>
Napi::Value JsModel::gradient_norm(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr, [](Model& model, const CancelFlag*) { return model.gradient_norm(); },
      [](Napi::Env env, double norm) { return Napi::Number::New(env, norm); });
}

// () => Promise<void>
Napi::Value JsModel::zero_gradients(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr, [](Model& model, const CancelFlag*) { model.zero_gradients(); }, nothing);
}

// (options) => Promise<NativeOptimizerResult>
Napi::Value JsModel::step(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr,
      [options = read_optimizer_options(Argument(info[0], "options"))](
          Model& model, const CancelFlag*) { return model.step(options); },
      update_to_js);
}

// (name) => Promise<Float32Array>
Napi::Value JsModel::weight(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr,
      [name = Argument(info[0], "name").string()](Model& model, const CancelFlag*) {
        return model.weight(name);
      },
      floats_to_js);
}

// (name) => Promise<Float32Array>
Napi::Value JsModel::gradient(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr,
      [name = Argument(info[0], "name").string()](Model& model, const CancelFlag*) {
        return model.gradient(name);
      },
      floats_to_js);
}

// (sequences) => Promise<Float32Array>
Napi::Value JsModel::logits(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr,
      [sequences = read_sequences(Argument(info[0], "sequences"))](
          Model& model, const CancelFlag*) { return model.logits(sequences); },
      floats_to_js);
}

// (path, header, tensors, cancellation?) => Promise<void>
Napi::Value JsModel::save(const Napi::CallbackInfo& info) {
  const std::vector<std::uint8_t> header = Argument(info[1], "header").uint8_array();
  return run(
      info, read_cancellation(info[3]),
      [path = Argument(info[0], "path").path(), header = std::string(header.begin(), header.end()),
       tensors = read_tensor_sinks(Argument(info[2], "tensors"))](Model& model,
                                                                  const CancelFlag* cancelled) {
        model.save(path, header, tensors, cancelled);
      },
      nothing);
}

// (arena, tensors, cancellation?) => Promise<void>
Napi::Value JsModel::load_arena(const Napi::CallbackInfo& info) {
  return run(
      info, read_cancellation(info[2]),
      [arena = read_arena(Argument(info[0], "arena")),
       tensors = read_tensor_sources(Argument(info[1], "tensors"))](Model& model,
                                                                    const CancelFlag* cancelled) {
        model.load_arena(arena, tensors, cancelled);
      },
      nothing);
}

// (step) => Promise<void>
Napi::Value JsModel::set_optimizer_step(const Napi::CallbackInfo& info) {
  return run(
      info, nullptr,
      [step = Argument(info[0], "step").integer(0, INT64_C(9007199254740991))](
          Model& model, const CancelFlag*) { model.set_optimizer_step(step); },
      nothing);
}

// () => void
Napi::Value JsModel::dispose(const Napi::CallbackInfo& info) {
  release(info.Env());
  return info.Env().Undefined();
}

Napi::Value initialize_model(const Napi::CallbackInfo& info) {
  return run_on_engine(
      info, nullptr,
      [config = read_config(Argument(info[0], "config")),
       compute = read_compute(Argument(info[1], "compute")),
       seed = Argument(info[2], "seed").uint64(),
       deviation = static_cast<float>(Argument(info[3], "standardDeviation").number(0, 10))](
          const CancelFlag*) {
        return std::make_shared<SharedModel>(Model::initialize(config, compute, seed, deviation));
      },
      create_js_model);
}

Napi::Value load_model(const Napi::CallbackInfo& info) {
  return run_on_engine(
      info, read_cancellation(info[3]),
      [config = read_config(Argument(info[0], "config")),
       compute = read_compute(Argument(info[1], "compute")),
       tensors = read_tensor_sources(Argument(info[2], "tensors"))](const CancelFlag* cancelled) {
        return std::make_shared<SharedModel>(Model::load(config, compute, tensors, cancelled));
      },
      create_js_model);
}

}  // namespace hindsearch
