// What a decoder is: the sizes and switches that the supported families need.
#pragma once

#include <cstdint>

namespace hindsearch {

// Llama-3 frequency scaling of rotary embeddings; factor 1 means none.
struct RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_positions = 8192;
};

struct ModelConfig {
  std::int32_t hidden = 0;         // C
  std::int32_t layers = 0;         // L
  std::int32_t heads = 0;          // H
  std::int32_t kv_heads = 0;       // K, divides H
  std::int32_t head_dim = 0;       // D, even; H * D may differ from C
  std::int32_t intermediate = 0;   // F
  std::int32_t vocabulary = 0;     // rows of the embedding
  std::int32_t token_limit = 0;    // ids the tokenizer knows, <= vocabulary; the rest do not exist
  std::int32_t max_positions = 0;  // longest sequence
  float rms_epsilon = 1e-6f;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied = false;      // output head = input embedding
  bool qkv_bias = false;  // Qwen2
  bool qk_norm = false;   // Qwen3: RMSNorm of every head of q and k before the rotation

  // Throws Error(INVALID_ARGUMENT) naming the field.
  void validate() const;
};

}  // namespace hindsearch
