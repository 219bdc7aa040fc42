// The NativeDecoder class of lib/native/decoder.ts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "native/addon/arguments.h"
#include "native/addon/decoder_session.h"
#include "native/addon/external_memory.h"
#include "native/addon/node_api.h"
#include "native/rollout/decoder_arguments.h"

namespace hindsearch {

class JsDecoder {
 public:
  static constexpr const char* kName = "NativeDecoder";
  static std::vector<napi_property_descriptor> members();

  JsDecoder(Napi::Env env, std::shared_ptr<DecoderSession> session, Token token_limit,
            const SequenceLimits& limits);
  void finalize(Napi::Env env) noexcept { release_all(env); }

  Napi::Value submit(const Napi::CallbackInfo& info);
  Napi::Value fork(const Napi::CallbackInfo& info);
  Napi::Value extend(const Napi::CallbackInfo& info);
  Napi::Value cancel(const Napi::CallbackInfo& info);
  Napi::Value release(const Napi::CallbackInfo& info);
  Napi::Value next(const Napi::CallbackInfo& info);
  Napi::Value stats(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value dispose(const Napi::CallbackInfo& info);

 private:
  class Next;

  // What the JavaScript thread knows of a sequence, so that wrong calls fail at once. It learns
  // that one has stopped when it collects the result.
  struct Sequence {
    bool decoding = false;
    std::int64_t size = 0;      // tokens, as far as collected
    std::int64_t boundary = 0;  // end of the text last supplied
    std::int64_t reserve = 0;
  };
  using Entry = std::unordered_map<std::int64_t, Sequence>::iterator;

  DecoderSession& session() const;  // Throws Error(DISPOSED).
  Entry find(const Argument& argument);
  // Notes that the sequences of `results` have stopped; those released meanwhile are left out.
  Napi::Array collect(Napi::Env env, const std::vector<SegmentResult>& results);
  // The only way the memory goes, whether by dispose() or by the garbage collector.
  void release_all(Napi::Env env) noexcept;

  std::shared_ptr<DecoderSession> session_;  // null once disposed of
  const Token token_limit_;
  const SequenceLimits limits_;
  ExternalMemory memory_;
  std::unordered_map<std::int64_t, Sequence> sequences_;
  std::int64_t last_number_ = 0;
  std::weak_ptr<Next> next_;
};

// (model, options, tokenBytes) => Promise<NativeDecoder>
Napi::Value create_decoder(const Napi::CallbackInfo& info);

}  // namespace hindsearch
