// A model small enough to decode thousands of tokens a second, and short names for what tests do.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/model/model.h"
#include "native/rollout/decoder.h"
#include "native/test/on_gpu.h"
#include "native/test/testing.h"

namespace hindsearch::testing {

inline constexpr std::int32_t kIds = 64;  // token 0 has no bytes, token i > 0 the one byte 32 + i

// Grouped heads, a head size of its own, biases, normed heads, and embedding rows that no id
// reaches.
inline ModelConfig tiny_config() {
  ModelConfig config;
  config.hidden = 32;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 12;
  config.intermediate = 40;
  config.vocabulary = 70;
  config.token_limit = kIds;
  config.max_positions = 256;
  config.qkv_bias = true;
  config.qk_norm = true;
  return config;
}

// A standard deviation that makes the distributions uneven, as trained ones are.
inline std::shared_ptr<Model> tiny_model(ComputeType compute = ComputeType::f32,
                                         std::uint64_t seed = 1) {
  return Model::initialize(tiny_config(), compute, seed, 0.3f);
}

inline TokenBytes tiny_bytes() {
  TokenBytes table;
  table.offsets = {0, 0};
  for (std::int32_t id = 1; id < kIds; ++id) {
    table.bytes.push_back(static_cast<std::uint8_t>(32 + id));
    table.offsets.push_back(static_cast<std::uint32_t>(table.bytes.size()));
  }
  return table;
}

inline std::string text_of(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) {
    if (token > 0) text.push_back(static_cast<char>(32 + token));
  }
  return text;
}

inline std::vector<Token> prompt_of(std::int32_t length, std::int32_t salt = 0) {
  std::vector<Token> tokens;
  for (std::int32_t i = 0; i < length; ++i)
    tokens.push_back((i * 7 + salt * 13 + i * i % 11) % kIds);
  return tokens;
}

inline SegmentOptions segment(std::int32_t max_new_tokens, float temperature = 1) {
  SegmentOptions options;
  options.max_new_tokens = max_new_tokens;
  options.sampling.temperature = temperature;
  return options;
}

inline Decoder decoder_for(std::shared_ptr<Model> model, std::int64_t cache_tokens = 4096,
                           std::int32_t max_batch = 64, std::int32_t prefill_tokens = 512) {
  return Decoder(std::move(model), {cache_tokens, max_batch, prefill_tokens}, tiny_bytes());
}

using Results = std::map<SequenceId, SegmentResult>;

// Steps until nothing is left to do; one result a sequence is expected.
inline Results run_all_of(Decoder& decoder) {
  std::vector<SegmentResult> finished;
  while (decoder.step(finished)) {
  }
  Results results;
  for (SegmentResult& result : finished) {
    const SequenceId id = result.sequence;
    if (!results.emplace(id, std::move(result)).second) {
      fail(__FILE__, __LINE__, "sequence ", id, " reported twice");
    }
  }
  return results;
}

// The same segment decoded alone by a decoder of its own: what any schedule must reproduce.
inline SegmentResult alone(const std::shared_ptr<Model>& model, const std::vector<Token>& text,
                           const SegmentOptions& options, RandomKey key, std::int32_t reserve = 0) {
  Decoder decoder = decoder_for(model);
  const auto room = static_cast<std::int32_t>(text.size()) + options.max_new_tokens;
  const SequenceId id = decoder.submit(text, options, key, std::max(reserve, room));
  return run_all_of(decoder).at(id);
}

// Log-probs of the same tokens in another schedule: to the last bit on the processor. On a GPU one row
// is computed by other kernels than many, with other orders of additions.
inline void check_log_probs(const std::vector<float>& actual, const std::vector<float>& expected) {
  CHECK_EQ(actual.size(), expected.size());
  static const bool exact = !on_gpu();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK_NEAR(actual[i], expected[i], exact ? 0 : 2e-5);
  }
}

inline std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace hindsearch::testing
