#include "native/addon/decoder_results.h"

#include <cstdint>

#include "native/addon/js_values.h"

namespace hindsearch {
namespace {

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::ready:
      return "ready";
    case FinishReason::stop:
      return "stop";
    case FinishReason::end_token:
      return "endToken";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  return "failed";
}

}  // namespace

Napi::Value segment_to_js(Napi::Env env, const SegmentResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("sequence", static_cast<double>(result.sequence));
  object.Set("reason", reason_name(result.reason));
  object.Set("tokens", to_js(env, result.tokens));
  object.Set("logProbs", to_js(env, result.log_probs));
  object.Set("stopIndex", result.stop_index);
  object.Set("overhang", result.overhang);
  object.Set("firstVersion", static_cast<double>(result.first_version));
  object.Set("lastVersion", static_cast<double>(result.last_version));
  if (result.reason == FinishReason::failed) object.Set("error", result.error);
  return object;
}

Napi::Value stats_to_js(Napi::Env env, const DecoderStats& stats) {
  Napi::Object object = Napi::Object::New(env);
  const auto set = [&](const char* name, std::int64_t value) {
    object.Set(name, static_cast<double>(value));
  };
  set("promptTokens", stats.prompt_tokens);
  set("sharedTokens", stats.shared_tokens);
  set("repeatedTokens", stats.repeated_tokens);
  set("generatedTokens", stats.generated_tokens);
  set("steps", stats.steps);
  set("pagesUsed", stats.pages_used);
  set("pagesPeak", stats.pages_peak);
  set("pagesTotal", stats.pages_total);
  set("running", stats.running);
  set("waiting", stats.waiting);
  set("queued", stats.queued);
  return object;
}

}  // namespace hindsearch
