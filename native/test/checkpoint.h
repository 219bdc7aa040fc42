#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "native/model/model.h"
#include "native/test/json.h"

namespace hindsearch::testing {

// Reads Hugging Face folders as far as the tests need it; the product reads them in TypeScript,
// with all checks.
inline ModelConfig read_config(const std::string& folder) {
  const Json json = Json::load(folder + "/config.json");
  const auto integer = [&](const char* key) {
    return static_cast<std::int32_t>(json[key].number());
  };
  ModelConfig config;
  config.hidden = integer("hidden_size");
  config.layers = integer("num_hidden_layers");
  config.heads = integer("num_attention_heads");
  config.kv_heads = integer("num_key_value_heads");
  config.head_dim = json.has("head_dim") ? integer("head_dim") : config.hidden / config.heads;
  config.intermediate = integer("intermediate_size");
  config.vocabulary = config.token_limit = integer("vocab_size");
  config.max_positions = integer("max_position_embeddings");
  config.rms_epsilon = static_cast<float>(json["rms_norm_eps"].number());
  config.rope_theta = json["rope_theta"].number();
  config.tied = json["tie_word_embeddings"].boolean();
  config.qkv_bias = json["model_type"].string() == "qwen2";
  config.qk_norm = json["model_type"].string() == "qwen3";
  if (json.has("rope_scaling") && !json["rope_scaling"].is_null()) {
    const Json& scaling = json["rope_scaling"];
    config.rope_scaling.factor = scaling["factor"].number();
    config.rope_scaling.low_frequency_factor = scaling["low_freq_factor"].number();
    config.rope_scaling.high_frequency_factor = scaling["high_freq_factor"].number();
    config.rope_scaling.original_positions = scaling["original_max_position_embeddings"].number();
  }
  return config;
}

inline std::vector<TensorSource> read_sources(const std::string& folder) {
  std::vector<TensorSource> sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof(length));
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    const Json tensors = Json::parse(header);
    for (const auto& [name, tensor] : tensors.members()) {
      if (name == "__metadata__") continue;
      const std::string& type = tensor["dtype"].string();
      const auto range = tensor["data_offsets"].numbers<std::uint64_t>();
      sources.push_back({name, entry.path().string(), 8 + length + range[0], range[1] - range[0],
                         type == "F32"   ? StorageType::f32
                         : type == "F16" ? StorageType::f16
                                         : StorageType::bf16,
                         tensor["shape"].numbers<std::int64_t>()});
    }
  }
  return sources;
}

inline std::shared_ptr<Model> load_model(const std::string& folder, ComputeType compute) {
  return Model::load(read_config(folder), compute, read_sources(folder));
}

// The float32 arrays of an expected.bin.
class GoldenArrays {
 public:
  GoldenArrays(const std::string& folder, const Json& json) : arrays_(json["arrays"]) {
    std::ifstream file(folder + "/" + json["bin"].string(), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<float> operator[](const std::string& name) const {
    std::size_t size = 1;
    for (const double extent : arrays_[name]["shape"].numbers<double>()) {
      size *= static_cast<std::size_t>(extent);
    }
    std::vector<float> values(size);
    const auto offset = static_cast<std::size_t>(arrays_[name]["offset"].number());
    if (offset + 4 * size > bytes_.size())
      throw std::runtime_error(name + " lies outside the file");
    if (size > 0) std::memcpy(values.data(), bytes_.data() + offset, 4 * size);
    return values;
  }

 private:
  Json arrays_;
  std::vector<char> bytes_;
};

// Packs sequences of tokens.
inline PackedSequences pack(const std::vector<std::vector<Token>>& sequences) {
  PackedSequences packed;
  packed.offsets.push_back(0);
  for (const auto& sequence : sequences) {
    packed.tokens.insert(packed.tokens.end(), sequence.begin(), sequence.end());
    packed.offsets.push_back(static_cast<std::int64_t>(packed.tokens.size()));
  }
  return packed;
}

}  // namespace hindsearch::testing
