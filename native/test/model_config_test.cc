#include <cmath>
#include <numbers>
#include <map>
#include <set>
#include <string>

#include "native/core/error.h"
#include "native/model/parameters.h"
#include "native/model/rope.h"
#include "native/test/random_model.h"
#include "native/test/testing.h"

namespace hindsearch {

TEST(wrong_configs_are_refused_by_field) {
  const auto refused = [](auto change, const char* field) {
    ModelConfig config = testing::small_config();
    change(config);
    const std::string message = CHECK_ERROR(code::kInvalidArgument, config.validate());
    if (message.find(field) == std::string::npos) throw std::runtime_error("message: " + message);
    CHECK_ERROR(code::kInvalidArgument, ParameterLayout(config));
  };
  testing::small_config().validate();
  refused([](ModelConfig& c) { c.hidden = 0; }, "hidden is 0");
  refused([](ModelConfig& c) { c.layers = -1; }, "layers is -1");
  refused([](ModelConfig& c) { c.heads = 0; }, "heads");
  refused([](ModelConfig& c) { c.kv_heads = 0; }, "kv_heads is 0");
  refused([](ModelConfig& c) { c.kv_heads = 3; }, "kv_heads is 3, expected a divisor of heads, 4");
  refused([](ModelConfig& c) { c.head_dim = 9; }, "head_dim is 9");
  refused([](ModelConfig& c) { c.intermediate = 0; }, "intermediate");
  refused([](ModelConfig& c) { c.vocabulary = 0; }, "vocabulary");
  refused([](ModelConfig& c) { c.token_limit = 42; },
          "token_limit is 42, expected at most vocabulary, 41");
  refused([](ModelConfig& c) { c.token_limit = 0; }, "token_limit");
  refused([](ModelConfig& c) { c.max_positions = 0; }, "max_positions");
  refused([](ModelConfig& c) { c.rms_epsilon = 0; }, "rms_epsilon");
  refused([](ModelConfig& c) { c.rms_epsilon = NAN; }, "rms_epsilon");
  refused([](ModelConfig& c) { c.rope_theta = -1; }, "rope_theta");
  refused([](ModelConfig& c) { c.rope_theta = INFINITY; }, "rope_theta");
  refused([](ModelConfig& c) { c.rope_scaling.factor = 0.5; }, "rope_scaling.factor");
  refused([](ModelConfig& c) { c.rope_scaling = {8, 4, 4, 64}; }, "low_frequency_factor");
  refused([](ModelConfig& c) { c.rope_scaling = {8, 1, 4, 0}; }, "original_positions");
}

TEST(sizes_that_would_overflow_are_refused) {
  const auto refused = [](auto change) {
    ModelConfig config = testing::small_config();
    change(config);
    CHECK_ERROR(code::kInvalidArgument, ParameterLayout(config));
  };
  constexpr std::int32_t kMost = 2147483647;
  refused([](ModelConfig& c) { c.hidden = kMost; });
  refused([](ModelConfig& c) { c.intermediate = kMost; });
  refused([](ModelConfig& c) { c.head_dim = kMost - 1; });
  refused([](ModelConfig& c) { c.heads = c.kv_heads = kMost; });
  refused([](ModelConfig& c) { c.layers = kMost, c.hidden = c.intermediate = 100000; });
  refused([](ModelConfig& c) { c.vocabulary = c.token_limit = kMost, c.hidden = 500000000; });
}

TEST(parameters_lie_one_after_the_other) {
  for (const ModelConfig& config : testing::small_configs()) {
    const ParameterLayout layout(config);
    std::map<std::int64_t, std::int64_t> places;
    std::int64_t unpacked = 0;
    std::set<std::string> names;
    for (const Parameter& parameter : layout.parameters()) {
      CHECK(places.emplace(parameter.offset, parameter.size).second);
      CHECK(names.insert(parameter.name).second);
      CHECK_EQ(layout.find(parameter.name), &parameter);
      const bool wide = parameter.name.ends_with("embed_tokens.weight") ||
                        parameter.name.ends_with("lm_head.weight");
      if (parameter.shape.size() == 1 || wide) {
        CHECK(parameter.offset < layout.unpacked_size());
        unpacked += parameter.size;
      }
    }
    std::int64_t next = 0;
    for (const auto& [offset, size] : places) {
      CHECK_EQ(offset, next);
      next += size;
    }
    CHECK_EQ(layout.size(), next);
    CHECK_EQ(layout.unpacked_size(), unpacked);
    CHECK_EQ(names.contains("lm_head.weight"), !config.tied);
    CHECK_EQ(names.contains("model.layers.1.self_attn.v_proj.bias"), config.qkv_bias);
    CHECK_EQ(names.contains("model.layers.1.self_attn.k_norm.weight"), config.qk_norm);
    CHECK_EQ(layout.head() == layout.embedding(), config.tied);
    CHECK(layout.find("model.extra") == nullptr);
    const auto at = [&](const char* name) {
      return layout.find(std::string("model.layers.1.") + name)->offset;
    };
    CHECK_EQ(layout.layer(1).qkv, at("self_attn.q_proj.weight"));
    CHECK_EQ(at("self_attn.k_proj.weight") - layout.layer(1).qkv,
             std::int64_t{config.heads} * config.head_dim * config.hidden);
    CHECK_EQ(at("mlp.up_proj.weight") - layout.layer(1).gate_up,
             std::int64_t{config.intermediate} * config.hidden);
  }
}

// Llama-3.1's own numbers: waves shorter than 2048 are left alone, longer than 8192 slowed 8 times.
TEST(llama3_scaling_has_three_bands) {
  ModelConfig config = testing::small_config();
  config.head_dim = 128;
  config.rope_theta = 500000;
  const std::vector<float> plain = rope_frequencies(config);
  CHECK_EQ(plain.size(), 64u);
  CHECK_EQ(plain[0], 1.0f);
  CHECK_NEAR(plain[1], std::pow(500000.0, -2.0 / 128), 1e-7);
  config.rope_scaling = {8, 1, 4, 8192};
  const std::vector<float> scaled = rope_frequencies(config);
  int untouched = 0, slowed = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i];
    if (wavelength < 2048) {
      CHECK_EQ(scaled[i], plain[i]);
      ++untouched;
    } else if (wavelength > 8192) {
      CHECK_EQ(scaled[i], plain[i] / 8);
      ++slowed;
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      CHECK_NEAR(scaled[i] / plain[i], smooth + (1 - smooth) / 8, 1e-5);
    }
  }
  CHECK_EQ(untouched, 29);
  CHECK_EQ(slowed, 29);
}

}  // namespace hindsearch
