#include "native/rollout/decoder_arguments.h"

#include <algorithm>
#include <limits>
#include <string>

#include "native/backend/temperature.h"
#include "native/core/error.h"

namespace hindsearch {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(code::kInvalidArgument, where + ": " + what);
}

void check_bytes(const TokenBytes& table, std::int64_t ids) {
  const auto& offsets = table.offsets;
  if (static_cast<std::int64_t>(offsets.size()) != ids + 1) {
    refuse("decoder", "the byte table has " + std::to_string(offsets.size()) +
                          " offsets, expected one more than the " + std::to_string(ids) +
                          " ids of the model's tokenizer");
  }
  if (offsets.front() != 0 || offsets.back() != table.bytes.size() ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    refuse("decoder", "the offsets of the byte table must rise from 0 to its " +
                          std::to_string(table.bytes.size()) + " bytes");
  }
}

void check_sampling(const char* where, const Sampling& sampling) {
  check_temperature(where, sampling.temperature, true);
  if (sampling.top_k < 0) {
    refuse(where, "topK is " + std::to_string(sampling.top_k) + ", expected 0 (off) or more");
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    refuse(where,
           "topP is " + std::to_string(sampling.top_p) + ", expected more than 0, up to 1 (off)");
  }
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) {
    refuse(where, "minP is " + std::to_string(sampling.min_p) + ", expected 0 (off) to 1");
  }
}

}  // namespace

void check_decoder(const Model* model, const DecoderOptions& options, const TokenBytes& bytes) {
  if (model == nullptr) refuse("decoder", "there is no model");
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (options.cache_tokens < 1 || options.cache_tokens > most * kPageTokens) {
    refuse("decoder", "cacheTokens is " + std::to_string(options.cache_tokens) +
                          ", expected 1 to " + std::to_string(most * kPageTokens));
  }
  if (options.max_batch < 1) {
    refuse("decoder", "maxBatch is " + std::to_string(options.max_batch) + ", expected 1 or more");
  }
  if (options.prefill_tokens < 1) {
    refuse("decoder",
           "prefillTokens is " + std::to_string(options.prefill_tokens) + ", expected 1 or more");
  }
  check_bytes(bytes, model->config().token_limit);
}

void check_tokens(const char* where, std::span<const Token> tokens, Token limit) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < limit) continue;
    refuse(where, "tokens[" + std::to_string(i) + "] is " + std::to_string(tokens[i]) +
                      ", outside the tokenizer's ids [0, " + std::to_string(limit) + ")");
  }
}

void check_segment(const char* where, const SegmentOptions& options, Token limit) {
  check_sampling(where, options.sampling);
  for (std::size_t i = 0; i < options.stops.size(); ++i) {
    if (options.stops[i].empty()) refuse(where, "stops[" + std::to_string(i) + "] is empty");
  }
  for (std::size_t i = 0; i < options.end_tokens.size(); ++i) {
    if (options.end_tokens[i] >= 0 && options.end_tokens[i] < limit) continue;
    refuse(where, "endTokens[" + std::to_string(i) + "] is " +
                      std::to_string(options.end_tokens[i]) + ", outside the tokenizer's ids [0, " +
                      std::to_string(limit) + ")");
  }
  if (options.max_new_tokens < 0) {
    refuse(where,
           "maxNewTokens is " + std::to_string(options.max_new_tokens) + ", expected 0 or more");
  }
}

void check_reserve(const char* where, std::int64_t text, std::int64_t max_new_tokens,
                   std::int64_t reserve, const SequenceLimits& limits) {
  const std::int64_t needed = text + max_new_tokens;
  const std::int64_t most = std::max(needed, reserve);
  if (most > std::min(limits.positions, limits.cache)) {
    throw Error(code::kContextFull,
                std::string(where) + ": a sequence of " + std::to_string(most) + " tokens (text " +
                    std::to_string(text) + ", maxNewTokens " + std::to_string(max_new_tokens) +
                    ", reserve " + std::to_string(reserve) + ") never fits: the model has " +
                    std::to_string(limits.positions) + " positions, the cache holds " +
                    std::to_string(limits.cache) + " tokens");
  }
  if (reserve < needed) {
    refuse(where, "reserve is " + std::to_string(reserve) + ", expected at least the " +
                      std::to_string(text) + " tokens of text and " +
                      std::to_string(max_new_tokens) + " of maxNewTokens");
  }
}

}  // namespace hindsearch
