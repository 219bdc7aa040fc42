#include "native/addon/decoder_options.h"

#include <cstdint>

#include "native/backend/temperature.h"

namespace hindsearch {
namespace {

constexpr std::int64_t kMaxInt32 = INT32_MAX;

}  // namespace

DecoderOptions read_decoder_options(const Argument& argument) {
  DecoderOptions options;
  // Before cacheTokens, whose default is made of it: the message names what the caller wrote.
  options.max_batch = static_cast<std::int32_t>(argument["maxBatch"].integer(1, 1 << 16));
  options.cache_tokens = argument["cacheTokens"].integer(1, kMaxInt32);
  options.prefill_tokens = static_cast<std::int32_t>(argument["prefillTokens"].integer(1, 1 << 20));
  return options;
}

TokenBytes read_token_bytes(const Argument& argument) {
  return {argument["bytes"].uint8_array(), argument["offsets"].uint32_array()};
}

Sampling read_sampling(const Argument& argument) {
  Sampling sampling;
  const Argument temperature = argument["temperature"];
  sampling.temperature = static_cast<float>(temperature.number(0, kMaxTemperature));
  if (sampling.temperature != 0 && sampling.temperature < static_cast<float>(kMinTemperature)) {
    temperature.refuse("0 (greedy) or a number from " + to_text(kMinTemperature) + " to " +
                       to_text(kMaxTemperature));
  }
  sampling.top_k = static_cast<std::int32_t>(argument["topK"].integer(0, kMaxInt32));
  sampling.top_p = static_cast<float>(argument["topP"].number(1e-6, 1));
  sampling.min_p = static_cast<float>(argument["minP"].number(0, 1));
  return sampling;
}

SegmentOptions read_segment_options(const Argument& argument) {
  SegmentOptions options;
  options.sampling = read_sampling(argument["sampling"]);
  argument["stops"].each([&](const Argument& stop) { options.stops.push_back(stop.string()); });
  argument["endTokens"].each([&](const Argument& token) {
    options.end_tokens.push_back(static_cast<Token>(token.integer(0, kMaxInt32)));
  });
  options.max_new_tokens =
      static_cast<std::int32_t>(argument["maxNewTokens"].integer(0, kMaxInt32));
  return options;
}

RandomKey read_random_key(const Argument& argument) {
  return {argument["seed"].uint64(), argument["stream"].uint64()};
}

std::vector<RandomKey> read_random_keys(const Argument& argument) {
  std::vector<RandomKey> keys;
  argument.each([&](const Argument& key) { keys.push_back(read_random_key(key)); });
  return keys;
}

}  // namespace hindsearch
