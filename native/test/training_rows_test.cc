// Rows that carry no gradient take no part in the backward pass.
#include <algorithm>
#include <ctime>
#include <random>

#include "native/core/thread_pool.h"
#include "native/test/checkpoint.h"
#include "native/test/random_model.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

using Tokens = std::vector<Token>;

constexpr std::size_t kPrompt = 5;

// Some hundred rows each: together more than one block of the sums over rows, so that rows too many
// would show in the last bits of a gradient.
std::vector<Tokens> sequences(const ModelConfig& config, std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<Tokens> result;
  for (std::size_t b = 0; b < count; ++b) {
    result.push_back(testing::random_tokens(random, 220 + 13 * b, config.token_limit));
  }
  return result;
}

// A policy gradient over everything behind the prompts, without KL, divided by fixed totals.
struct Task {
  PackedSequences packed = testing::pack({});
  Objective objective;

  Task() { objective.total_policy_tokens = 1000; }

  // The policy wrote the tokens from the prompt up to `end`.
  void add(const Tokens& tokens, float advantage, std::size_t end) {
    packed.tokens.insert(packed.tokens.end(), tokens.begin(), tokens.end());
    packed.offsets.push_back(static_cast<std::int64_t>(packed.tokens.size()));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      objective.policy_mask.push_back(i >= kPrompt && i < end);
      objective.advantages.push_back(advantage);
      objective.old_log_probs.push_back(-3);
    }
  }
};

std::vector<std::vector<float>> gradients(Model& model, const Task& task) {
  model.zero_gradients();
  model.forward_backward(task.packed, task.objective, {});
  std::vector<std::vector<float>> result;
  for (const Parameter& parameter : model.layout().parameters()) {
    result.push_back(model.gradient(parameter.name));
  }
  return result;
}

double cpu_seconds(const auto& body) {
  const std::clock_t start = std::clock();
  body();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace

TEST(sequences_without_advantage_change_no_bit_of_the_gradient) {
  for (const ModelConfig& config : testing::small_configs()) {
    const auto model = testing::random_model(config, ComputeType::f32);
    const std::vector<Tokens> live = sequences(config, 1, 3), dead = sequences(config, 2, 3);
    Task without, with;
    for (std::size_t b = 0; b < live.size(); ++b) {
      without.add(live[b], 0.5f - static_cast<float>(b), live[b].size());
      with.add(dead[b], 0, dead[b].size());
      with.add(live[b], 0.5f - static_cast<float>(b), live[b].size());
    }
    CHECK(gradients(*model, with) == gradients(*model, without));
  }
}

TEST(sequences_without_advantage_are_in_the_metrics) {
  const auto model = testing::random_model(testing::small_config(), ComputeType::f32);
  const std::vector<Tokens> dead = sequences(model->config(), 2, 2);
  Task task;
  task.add(sequences(model->config(), 1, 1)[0], 1, 100);
  for (const Tokens& tokens : dead) task.add(tokens, 0, tokens.size());
  const ObjectiveResult result = model->forward_backward(task.packed, task.objective, {});
  const auto policy_tokens = 100 + dead[0].size() + dead[1].size() - 3 * kPrompt;
  CHECK_EQ(result.policy_tokens, static_cast<double>(policy_tokens));
  const std::vector<float> scores = model->score(task.packed, {1, {1, 1, 1}, false}).log_probs;
  double ratios = 0, largest = 0;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    if (!task.objective.policy_mask[t]) continue;
    CHECK_EQ(result.log_probs[t], scores[t]);
    ratios += std::exp(double{scores[t]} + 3);
    largest = std::max(largest, std::exp(double{scores[t]} + 3));
  }
  CHECK_NEAR(result.ratio_mean, ratios / static_cast<double>(policy_tokens), 1e-12);
  CHECK_NEAR(result.ratio_max, largest, 1e-12);
}

TEST(tokens_behind_the_last_scored_one_change_no_bit_of_the_gradient) {
  for (const ModelConfig& config : testing::small_configs()) {
    const auto model = testing::random_model(config, ComputeType::f32);
    Task whole, cut;
    for (const Tokens& tokens : sequences(config, 1, 4)) {
      const std::size_t end = 150;
      whole.add(tokens, 1, end);
      cut.add({tokens.begin(), tokens.begin() + end}, 1, end);
    }
    CHECK(gradients(*model, whole) == gradients(*model, cut));
  }
}

// Scoring is a forward pass; with backward and recomputation it would be four times that.
TEST(sequences_without_advantage_cost_what_scoring_costs) {
  ModelConfig config = testing::small_config();
  config.hidden = 200;
  config.intermediate = 530;
  const auto model = testing::random_model(config, ComputeType::f32);
  const int before = thread_count();
  set_thread_count(1);
  Task task;
  task.add(sequences(config, 1, 1)[0], 1, kPrompt + 1);
  std::vector<std::int64_t> first = {1};
  for (const Tokens& tokens : sequences(config, 2, 6)) {
    task.add(tokens, 0, tokens.size());
    first.push_back(1);
  }
  double scoring = 1e9, training = 1e9;
  for (int i = 0; i < 3; ++i) {
    scoring = std::min(scoring, cpu_seconds([&] { model->score(task.packed, {1, first, false}); }));
    training = std::min(
        training, cpu_seconds([&] { model->forward_backward(task.packed, task.objective, {}); }));
  }
  set_thread_count(before);
  CHECK(training < 2 * scoring);
}

}  // namespace hindsearch
