// What the model's functions return, as lib/native/model.ts and objective.ts declare it. JavaScript
// thread only.
#pragma once

#include <vector>

#include "native/addon/node_api.h"
#include "native/model/model.h"

namespace hindsearch {

Napi::Value parameters_to_js(Napi::Env env, const std::vector<Parameter>& parameters);
Napi::Value score_to_js(Napi::Env env, const ScoreResult& result);
Napi::Value objective_to_js(Napi::Env env, const ObjectiveResult& result);
Napi::Value update_to_js(Napi::Env env, const OptimizerResult& result);

}  // namespace hindsearch
