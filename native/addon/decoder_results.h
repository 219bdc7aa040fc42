// What the decoder's functions return, as lib/native/decoder.ts declares it. JavaScript thread
// only.
#pragma once

#include "native/addon/node_api.h"
#include "native/rollout/decoder.h"

namespace hindsearch {

Napi::Value segment_to_js(Napi::Env env, const SegmentResult& result);
Napi::Value stats_to_js(Napi::Env env, const DecoderStats& stats);

}  // namespace hindsearch
