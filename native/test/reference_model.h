#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "native/model/model.h"

namespace hindsearch::testing {

// The decoder again, in float64, a token at a time and with no thought of speed, to compare with.
class ReferenceModel {
 public:
  explicit ReferenceModel(const Model& model) : c_(model.config()) {
    for (const Parameter& parameter : model.layout().parameters()) {
      const std::vector<float> values = model.weight(parameter.name);
      weights[parameter.name].assign(values.begin(), values.end());
    }
  }

  // log p(token t | tokens before it) at a temperature; 0 for the first.
  std::vector<double> log_probs(const std::vector<Token>& tokens, double temperature) const {
    std::vector<std::vector<Vector>> keys(static_cast<std::size_t>(c_.layers)), values = keys;
    std::vector<double> result = {0};
    for (std::size_t p = 0; p + 1 < tokens.size(); ++p) {
      Vector x = row(weights.at("model.embed_tokens.weight"), tokens[p]);
      for (std::int32_t l = 0; l < c_.layers; ++l) {
        const auto i = static_cast<std::size_t>(l);
        layer("model.layers." + std::to_string(l) + ".", p, x, keys[i], values[i]);
      }
      x = norm(x, weights.at("model.norm.weight"));
      const Vector& head = weights.at(c_.tied ? "model.embed_tokens.weight" : "lm_head.weight");
      Vector logits = product(head, x);
      logits.resize(static_cast<std::size_t>(c_.token_limit));
      double sum = 0;
      for (double& logit : logits) sum += std::exp(logit /= temperature);
      result.push_back(logits[static_cast<std::size_t>(tokens[p + 1])] - std::log(sum));
    }
    return result;
  }

  std::map<std::string, std::vector<double>> weights;

 private:
  using Vector = std::vector<double>;

  Vector row(const Vector& table, Token token) const {
    const auto at = table.begin() + std::int64_t{token} * c_.hidden;
    return {at, at + c_.hidden};
  }

  Vector norm(const Vector& x, const Vector& weight) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale =
        1 / std::sqrt(squares / static_cast<double>(x.size()) + double{c_.rms_epsilon});
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
    return y;
  }

  static Vector product(const Vector& matrix, const Vector& x) {
    Vector y(matrix.size() / x.size());
    for (std::size_t n = 0; n < y.size(); ++n) {
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += matrix[n * x.size() + k] * x[k];
    }
    return y;
  }

  double frequency(std::int32_t i) const {
    const double plain = std::pow(c_.rope_theta, -2.0 * i / c_.head_dim);
    const RopeScaling& s = c_.rope_scaling;
    if (s.factor == 1) return plain;
    const double turns = s.original_positions * plain / (2 * std::numbers::pi);
    const double smooth = std::clamp(
        (turns - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor), 0.0,
        1.0);
    return plain * (smooth + (1 - smooth) / s.factor);
  }

  // Heads of a projection, with bias, norm and rotation as the model has them.
  std::vector<Vector> heads(const std::string& prefix, const char* name, std::size_t position,
                            const Vector& x, bool rotate) const {
    Vector y = product(weights.at(prefix + "self_attn." + name + "_proj.weight"), x);
    if (c_.qkv_bias) {
      const Vector& bias = weights.at(prefix + "self_attn." + name + "_proj.bias");
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
    }
    std::vector<Vector> result;
    const auto width = static_cast<std::size_t>(c_.head_dim);
    for (auto at = y.begin(); at != y.end(); at += c_.head_dim) {
      Vector head(at, at + c_.head_dim);
      if (rotate && c_.qk_norm) {
        head = norm(head, weights.at(prefix + "self_attn." + name + "_norm.weight"));
      }
      for (std::size_t i = 0; rotate && i < width / 2; ++i) {
        const double angle =
            static_cast<double>(position) * frequency(static_cast<std::int32_t>(i));
        const double a = head[i], b = head[i + width / 2];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + width / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
      result.push_back(head);
    }
    return result;
  }

  Vector attend(const std::vector<Vector>& queries, const std::vector<Vector>& keys,
                const std::vector<Vector>& values) const {
    Vector out;
    const auto kv_heads = static_cast<std::size_t>(c_.kv_heads);
    for (std::size_t h = 0; h < queries.size(); ++h) {
      const std::size_t kv = h / (queries.size() / kv_heads);
      Vector sum(static_cast<std::size_t>(c_.head_dim));
      double total = 0;
      for (std::size_t j = kv; j < keys.size(); j += kv_heads) {
        double score = 0;
        for (std::size_t i = 0; i < sum.size(); ++i) score += queries[h][i] * keys[j][i];
        const double weight = std::exp(score / std::sqrt(double{static_cast<double>(c_.head_dim)}));
        total += weight;
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * values[j][i];
      }
      for (const double v : sum) out.push_back(v / total);
    }
    return out;
  }

  // keys and values: those of the positions before, K heads each.
  void layer(const std::string& prefix, std::size_t position, Vector& x, std::vector<Vector>& keys,
             std::vector<Vector>& values) const {
    const auto add = [&](const Vector& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    const Vector h = norm(x, weights.at(prefix + "input_layernorm.weight"));
    for (const Vector& k : heads(prefix, "k", position, h, true)) keys.push_back(k);
    for (const Vector& v : heads(prefix, "v", position, h, false)) values.push_back(v);
    add(product(weights.at(prefix + "self_attn.o_proj.weight"),
                attend(heads(prefix, "q", position, h, true), keys, values)));
    const Vector m = norm(x, weights.at(prefix + "post_attention_layernorm.weight"));
    Vector gate = product(weights.at(prefix + "mlp.gate_proj.weight"), m);
    const Vector up = product(weights.at(prefix + "mlp.up_proj.weight"), m);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    add(product(weights.at(prefix + "mlp.down_proj.weight"), gate));
  }

  ModelConfig c_;
};

}  // namespace hindsearch::testing
