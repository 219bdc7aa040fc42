// Checks of what callers hand to the decoder. Everything inside relies on them.
#pragma once

#include <span>

#include "native/rollout/decoder.h"

namespace hindsearch {

// What bounds a sequence: the model's positions and the cache, in tokens.
struct SequenceLimits {
  std::int64_t positions = 0;
  std::int64_t cache = 0;
};

// All throw Error(INVALID_ARGUMENT); `where` begins the message, e.g. "submit".
void check_decoder(const Model* model, const DecoderOptions& options, const TokenBytes& bytes);
void check_tokens(const char* where, std::span<const Token> tokens, Token limit);
void check_segment(const char* where, const SegmentOptions& options, Token limit);
// Throws Error(CONTEXT_FULL) too: see Decoder::submit.
void check_reserve(const char* where, std::int64_t text, std::int64_t max_new_tokens,
                   std::int64_t reserve, const SequenceLimits& limits);

}  // namespace hindsearch
