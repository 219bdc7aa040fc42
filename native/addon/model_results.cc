#include "native/addon/model_results.h"

#include <cstdint>

#include "native/addon/js_values.h"

namespace hindsearch {

Napi::Value parameters_to_js(Napi::Env env, const std::vector<Parameter>& parameters) {
  Napi::Array array = Napi::Array::New(env, parameters.size());
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    Napi::Array shape = Napi::Array::New(env, parameter.shape.size());
    for (std::uint32_t side = 0; side < parameter.shape.size(); ++side) {
      shape.Set(side, static_cast<double>(parameter.shape[side]));
    }
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", parameter.name);
    object.Set("shape", shape);
    object.Set("size", static_cast<double>(parameter.size));
    array.Set(i, object);
  }
  return array;
}

Napi::Value score_to_js(Napi::Env env, const ScoreResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("logProbs", to_js(env, result.log_probs));
  object.Set("entropies", to_js(env, result.entropies));
  return object;
}

Napi::Value objective_to_js(Napi::Env env, const ObjectiveResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("loss", result.loss);
  object.Set("policyLoss", result.policy_loss);
  object.Set("klLoss", result.kl_loss);
  object.Set("distillLoss", result.distill_loss);
  object.Set("crossEntropy", result.cross_entropy);
  object.Set("policyTokens", result.policy_tokens);
  object.Set("distillTokens", result.distill_tokens);
  object.Set("clipFractionLow", result.clip_fraction_low);
  object.Set("clipFractionHigh", result.clip_fraction_high);
  object.Set("dualClipFraction", result.dual_clip_fraction);
  object.Set("ratioMean", result.ratio_mean);
  object.Set("ratioMax", result.ratio_max);
  object.Set("logRatioMaxAbs", result.log_ratio_max_abs);
  object.Set("ratioClamped", result.ratio_clamped);
  object.Set("klClamped", result.kl_clamped);
  object.Set("logProbs", to_js(env, result.log_probs));
  return object;
}

Napi::Value update_to_js(Napi::Env env, const OptimizerResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("gradientNorm", result.gradient_norm);
  object.Set("skipped", result.skipped);
  object.Set("step", static_cast<double>(result.step));
  return object;
}

}  // namespace hindsearch
