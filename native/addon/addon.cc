// What the addon exports; lib/native/addon.ts has the types.
#include <cmath>
#include <vector>

#include "native/addon/arguments.h"
#include "native/addon/cancellation.h"
#include "native/addon/decoder.h"
#include "native/addon/decoder_options.h"
#include "native/addon/environment.h"
#include "native/addon/js_values.h"
#include "native/addon/model.h"
#include "native/addon/node_api.h"
#include "native/addon/object.h"
#include "native/addon/run.h"
#include "native/backend/backend.h"
#include "native/backend/sampling.h"
#include "native/core/error.h"
#include "native/core/thread_pool.h"

namespace hindsearch {
namespace {

// () => number
Napi::Value threads(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), thread_count());
}

// (count) => void
Napi::Value set_threads(const Napi::CallbackInfo& info) {
  set_thread_count(static_cast<int>(Argument(info[0], "count").integer(1, 256)));
  return info.Env().Undefined();
}

// () => MemoryUse
Napi::Value memory(const Napi::CallbackInfo& info) {
  const MemoryUse use = memory_use();
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("bytes", static_cast<double>(use.bytes));
  object.Set("peakBytes", static_cast<double>(use.peak));
  object.Set("keptBytes", static_cast<double>(use.kept));
  return object;
}

// () => Promise<NativeDevice>. On the engine's thread: to wake a GPU takes a while.
Napi::Value device(const Napi::CallbackInfo& info) {
  return run_on_engine(
      info, nullptr, [](const CancelFlag*) { return device_info(); },
      [](Napi::Env env, const DeviceInfo& found) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("available", found.unavailable.empty());
        object.Set("description", found.description);
        if (!found.unavailable.empty()) object.Set("reason", found.unavailable);
        object.Set("totalBytes", static_cast<double>(found.total_bytes));
        object.Set("freeBytes", static_cast<double>(found.free_bytes));
        return object;
      });
}

// () => Cancellation
Napi::Value create_cancellation(const Napi::CallbackInfo& info) {
  return Cancellation::create(info.Env());
}

// (logits, sampling) => Float32Array
Napi::Value filter(const Napi::CallbackInfo& info) {
  const std::vector<float> logits = Argument(info[0], "logits").float32_array();
  const Sampling sampling = read_sampling(Argument(info[1], "sampling"));
  if (logits.empty()) throw Error(code::kInvalidArgument, "logits must hold at least one number.");
  const std::vector<float> probabilities =
      filter_probabilities(logits.data(), static_cast<std::int64_t>(logits.size()), sampling);
  if (std::isnan(probabilities.front())) {
    throw Error(code::kInvalidArgument,
                "logits must be numbers below infinity, not all of them -Infinity.");
  }
  return to_js(info.Env(), probabilities);
}

}  // namespace

Napi::Object initialize_addon(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData(new Environment(env));  // Node deletes it with the environment
  exports.Set("version", HINDSEARCH_VERSION);
  exports.Set("instructionSet", instruction_set());
  const std::vector<napi_property_descriptor> functions = {
      function<&threads>("threads"),
      function<&set_threads>("setThreads"),
      function<&memory>("memory"),
      function<&device>("device"),
      function<&create_cancellation>("createCancellation"),
      function<&initialize_model>("initialize"),
      function<&load_model>("load"),
      function<&create_decoder>("createDecoder"),
      function<&filter>("filterProbabilities"),
  };
  if (napi_define_properties(env, exports, functions.size(), functions.data()) != napi_ok) {
    throw Napi::Error::New(env);
  }
  return exports;
}

}  // namespace hindsearch

static Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  return hindsearch::initialize_addon(env, exports);
}
NODE_API_MODULE(hindsearch, initialize)
