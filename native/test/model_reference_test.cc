// Log-probs and gradients against the float64 reference, for every switch of the config.
#include <cmath>
#include <random>

#include "native/test/checkpoint.h"
#include "native/test/random_model.h"
#include "native/test/reference_model.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

constexpr float kTemperature = 0.8f;

struct Problem {
  std::vector<std::vector<Token>> sequences;
  PackedSequences packed;
  Objective objective;  // -sum w * log-prob with w of both signs
};

Problem random_problem(const ModelConfig& config) {
  std::mt19937 random(7);
  Problem problem;
  for (const std::size_t n : {19, 1, 2, 33}) {
    problem.sequences.push_back(testing::random_tokens(random, n, config.token_limit));
    for (std::size_t t = 0; t < n; ++t) {
      const bool scored = t > 0 && random() % 4 != 0;
      problem.objective.weights.push_back(scored ? static_cast<float>(random() % 1000) / 500 - 1
                                                 : 0);
    }
  }
  problem.packed = testing::pack(problem.sequences);
  problem.objective.policy.weight = 0;
  problem.objective.cross_entropy.weight = 1;
  problem.objective.total_weight = 1;
  return problem;
}

double reference_loss(const testing::ReferenceModel& reference, const Problem& problem) {
  double loss = 0;
  std::size_t t = 0;
  for (const auto& sequence : problem.sequences) {
    for (const double log_prob : reference.log_probs(sequence, kTemperature)) {
      loss -= problem.objective.weights[t++] * log_prob;
    }
  }
  return loss;
}

}  // namespace

TEST(log_probs_agree_with_the_reference) {
  for (const ModelConfig& config : testing::small_configs()) {
    const auto model = testing::random_model(config, ComputeType::f32);
    const testing::ReferenceModel reference(*model);
    const Problem problem = random_problem(config);
    const ScoreResult scores = model->score(problem.packed, {kTemperature, {1, 1, 1, 1}, true});
    std::size_t t = 0;
    for (const auto& sequence : problem.sequences) {
      for (const double expected : reference.log_probs(sequence, kTemperature)) {
        CHECK_NEAR(scores.log_probs[t++], expected, 3e-5);
      }
    }
  }
}

// For every parameter, the slope along a random direction of +-1 entries and along a few single
// entries, by central differences in float64.
TEST(gradients_agree_with_differences_of_the_reference) {
  for (const ModelConfig& config : testing::small_configs()) {
    const auto model = testing::random_model(config, ComputeType::f32);
    testing::ReferenceModel reference(*model);
    const Problem problem = random_problem(config);
    TrainOptions options;
    options.temperature = kTemperature;
    const ObjectiveResult result =
        model->forward_backward(problem.packed, problem.objective, options);
    CHECK_NEAR(result.loss, reference_loss(reference, problem), 1e-4);

    std::mt19937 random(3);
    for (const Parameter& parameter : model->layout().parameters()) {
      const std::vector<float> gradient = model->gradient(parameter.name);
      std::vector<double>& weights = reference.weights.at(parameter.name);
      const auto check = [&](const std::vector<double>& direction) {
        const double h = 1e-5;
        double slope = 0, expected = 0, norm = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          slope += direction[i] * gradient[i];
          norm += std::abs(direction[i]) * double{gradient[i]} * gradient[i];
        }
        for (const double side : {1.0, -1.0}) {
          for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += side * h * direction[i];
          expected += side * reference_loss(reference, problem) / (2 * h);
          for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= side * h * direction[i];
        }
        CHECK_NEAR(slope, expected, 1e-4 * std::sqrt(norm) + 1e-4);
      };
      std::vector<double> direction(gradient.size());
      for (double& d : direction) d = random() % 2 ? 1 : -1;
      check(direction);
      for (int entry = 0; entry < 2; ++entry) {
        std::fill(direction.begin(), direction.end(), 0);
        direction[random() % direction.size()] = 1;
        check(direction);
      }
    }
  }
}

// Embedding rows that the tokenizer does not know have no probability and get no gradient.
TEST(rows_beyond_the_token_limit_do_not_exist) {
  ModelConfig config = testing::small_config();
  config.tied = true;
  const auto model = testing::random_model(config, ComputeType::f32);
  const Problem problem = random_problem(config);
  model->forward_backward(problem.packed, problem.objective, {});
  const std::vector<float> gradient = model->gradient("model.embed_tokens.weight");
  for (std::int32_t i = config.token_limit * config.hidden; i < config.vocabulary * config.hidden;
       ++i) {
    CHECK_EQ(gradient[static_cast<std::size_t>(i)], 0.0f);
  }
  CHECK_EQ(model->logits(testing::pack({{1, 2}})).size(), 2u * 37u);
  CHECK_ERROR(code::kInvalidArgument, model->score(testing::pack({{1, 37}}), {1, {1}, false}));
}

}  // namespace hindsearch
