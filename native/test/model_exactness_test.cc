// The log-prob of a token depends, to the last bit, on weights and the tokens before it, and on
// nothing else: not on the batch, the micro-batch, the cache, the number of threads, nor on whether
// it was decoded, scored or trained on.
#include <algorithm>
#include <cmath>
#include <random>

#include "native/core/thread_pool.h"
#include "native/test/cached_run.h"
#include "native/test/checkpoint.h"
#include "native/test/random_model.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

constexpr float kTemperature = 0.7f;

// Runs `body(model)` in both compute types for every small config, and for one that is wide enough
// to be spread over threads.
template <class Body>
void for_all_models(Body&& body) {
  std::vector<ModelConfig> configs = testing::small_configs();
  configs.push_back(configs.back());
  configs.back().hidden = 200;
  configs.back().intermediate = 530;
  configs.back().vocabulary = configs.back().token_limit = 1100;
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    for (const ModelConfig& config : configs) {
      body(*testing::random_model(config, compute));
    }
  }
}

// Restores the number of threads.
class Threads {
 public:
  explicit Threads(int n) : before_(thread_count()) { set_thread_count(n); }
  ~Threads() { set_thread_count(before_); }

 private:
  int before_;
};

std::vector<std::vector<Token>> sequences(const ModelConfig& config) {
  std::mt19937 random(11);
  std::vector<std::vector<Token>> result;
  for (const std::size_t n : {5, 1, 33, 16, 2, 70, 17}) {
    result.push_back(testing::random_tokens(random, n, config.token_limit));
  }
  return result;
}

ScoreResult score(Model& model, const std::vector<std::vector<Token>>& batch,
                  std::int64_t micro_batch_tokens = 8192) {
  ScoreOptions options;
  options.temperature = kTemperature;
  options.first.assign(batch.size(), 1);
  options.micro_batch_tokens = micro_batch_tokens;
  return model.score(testing::pack(batch), options);
}

// A GRPO batch with KL over everything but the prompts.
Objective objective(const PackedSequences& packed) {
  std::mt19937 random(5);
  const auto uniform = [&] { return static_cast<float>(random() % 1000) / 1000; };
  Objective o;
  o.kl.weight = 0.1f;
  o.policy.clip_low = o.policy.clip_high = 0.5f;
  for (std::size_t b = 0; b + 1 < packed.offsets.size(); ++b) {
    const float advantage = uniform() - 0.5f;
    for (std::int64_t t = packed.offsets[b]; t < packed.offsets[b + 1]; ++t) {
      o.policy_mask.push_back(t - packed.offsets[b] >= 2);
      o.old_log_probs.push_back(-3 - uniform());
      o.reference_log_probs.push_back(-3 - uniform());
      o.advantages.push_back(advantage);
    }
  }
  return o;
}

struct Trained {
  ObjectiveResult result;
  std::vector<std::vector<float>> gradients;
};
Trained train(Model& model, const TrainOptions& options) {
  const PackedSequences packed = testing::pack(sequences(model.config()));
  model.zero_gradients();
  Trained trained{model.forward_backward(packed, objective(packed), options), {}};
  for (const Parameter& parameter : model.layout().parameters()) {
    trained.gradients.push_back(model.gradient(parameter.name));
  }
  return trained;
}

}  // namespace

TEST(score_does_not_depend_on_the_batch) {
  for_all_models([](Model& model) {
    const auto batch = sequences(model.config());
    const ScoreResult together = score(model, batch);
    for (const std::int64_t tokens : {1, 20, 64}) {
      const ScoreResult split = score(model, batch, tokens);
      CHECK(split.log_probs == together.log_probs);
      CHECK(split.entropies == together.entropies);
    }
    auto at = together.log_probs.begin();
    for (const auto& sequence : batch) {
      const ScoreResult alone = score(model, {sequence});
      CHECK(std::equal(alone.log_probs.begin(), alone.log_probs.end(), at));
      at += static_cast<std::int64_t>(sequence.size());
    }
  });
}

TEST(score_does_not_depend_on_the_threads) {
  for_all_models([](Model& model) {
    const auto batch = sequences(model.config());
    const ScoreResult expected = score(model, batch);
    for (const int threads : {1, 2, 3}) {
      const Threads set(threads);
      const ScoreResult scores = score(model, batch);
      CHECK(scores.log_probs == expected.log_probs);
      CHECK(scores.entropies == expected.entropies);
    }
  });
}

TEST(cached_logits_are_those_of_the_whole_sequence) {
  for_all_models([](Model& model) {
    const auto batch = sequences(model.config());
    std::vector<std::vector<float>> expected;
    for (const auto& sequence : batch) expected.push_back(model.logits(testing::pack({sequence})));
    const auto vocabulary = static_cast<std::size_t>(model.config().token_limit);
    for (const std::size_t step : {1, 7, 100}) {
      testing::CachedRun run(model, static_cast<std::int32_t>(batch.size()), 100);
      for (std::size_t done = 0; done < 70; done += step) {
        std::vector<std::int32_t> running;
        std::vector<std::vector<Token>> rows;
        for (std::size_t b = 0; b < batch.size(); ++b) {
          if (done >= batch[b].size()) continue;
          running.push_back(static_cast<std::int32_t>(b));
          const auto end = std::min(done + step, batch[b].size());
          rows.emplace_back(batch[b].begin() + static_cast<std::int64_t>(done),
                            batch[b].begin() + static_cast<std::int64_t>(end));
        }
        const std::vector<float> logits = run.append(running, rows);
        auto at = logits.begin();
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const auto b = static_cast<std::size_t>(running[i]);
          const auto size = static_cast<std::int64_t>(rows[i].size() * vocabulary);
          CHECK(std::equal(at, at + size,
                           expected[b].begin() + static_cast<std::int64_t>(done * vocabulary)));
          at += size;
        }
      }
    }
  });
}

// What a rollout records is what scoring and training find.
TEST(sampled_log_probs_are_those_of_score_and_training) {
  for_all_models([](Model& model) {
    std::vector<std::vector<Token>> batch = sequences(model.config());
    const auto count = static_cast<std::int32_t>(batch.size());
    const std::int64_t vocabulary = model.config().token_limit;
    testing::CachedRun run(model, count, 100);
    std::vector<std::int32_t> all;
    for (std::int32_t b = 0; b < count; ++b) all.push_back(b);
    std::vector<std::vector<Token>> next = batch;
    std::vector<std::vector<float>> recorded(batch.size());
    std::mt19937 random(9);
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> logits = run.append(all, next);
      std::int64_t row = 0;
      for (std::size_t b = 0; b < batch.size(); ++b) {
        row += static_cast<std::int64_t>(next[b].size());
        std::vector<float> last(logits.begin() + (row - 1) * vocabulary,
                                logits.begin() + row * vocabulary);
        Sampling sampling;
        sampling.temperature = kTemperature;
        const double uniform = static_cast<double>(random()) * 0x1p-32;
        Token token;
        float log_prob;
        model.backend().sample(last.data(), 1, vocabulary, &sampling, &uniform, &token, &log_prob);
        next[b] = {token};
        batch[b].push_back(token);
        recorded[b].push_back(log_prob);
      }
    }
    const PackedSequences packed = testing::pack(batch);
    const ScoreResult scores = score(model, batch);
    TrainOptions options;
    options.temperature = kTemperature;
    const ObjectiveResult trained = model.forward_backward(packed, objective(packed), options);
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const std::int64_t end = packed.offsets[b + 1];
      CHECK(
          std::equal(recorded[b].begin(), recorded[b].end(), scores.log_probs.begin() + end - 20));
      for (std::int64_t t = packed.offsets[b] + 2; t < end; ++t) {
        const auto i = static_cast<std::size_t>(t);
        CHECK_EQ(trained.log_probs[i], scores.log_probs[i]);
      }
    }
  });
}

TEST(gradients_do_not_depend_on_checkpointing_or_threads) {
  for_all_models([](Model& model) {
    TrainOptions options;
    options.temperature = kTemperature;
    options.micro_batch_tokens = 60;
    const Trained expected = train(model, options);
    options.checkpoint_activations = false;
    for (const int threads : {1, 2}) {
      const Threads set(threads);
      const Trained trained = train(model, options);
      CHECK_EQ(trained.result.loss, expected.result.loss);
      CHECK(trained.gradients == expected.gradients);
    }
  });
}

// Loss and metrics bit for bit; gradients up to the order in which rows are added.
TEST(micro_batches_change_no_loss_and_no_gradient) {
  for_all_models([](Model& model) {
    TrainOptions options;
    options.temperature = kTemperature;
    const Trained expected = train(model, options);
    double norm = 0;
    for (const auto& gradient : expected.gradients) {
      for (const float g : gradient) norm += double{g} * g;
    }
    for (const std::int64_t tokens : {1, 40, 80}) {
      options.micro_batch_tokens = tokens;
      const Trained trained = train(model, options);
      CHECK_EQ(trained.result.loss, expected.result.loss);
      CHECK_EQ(trained.result.kl_loss, expected.result.kl_loss);
      CHECK_EQ(trained.result.ratio_mean, expected.result.ratio_mean);
      CHECK(trained.result.log_probs == expected.result.log_probs);
      double error = 0;
      for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
        for (std::size_t j = 0; j < expected.gradients[i].size(); ++j) {
          const double d = double{trained.gradients[i][j]} - expected.gradients[i][j];
          error += d * d;
        }
      }
      CHECK_NEAR(std::sqrt(error), 0, 1e-6 * std::sqrt(norm));
    }
  });
}

TEST(initialization_is_a_function_of_the_seed) {
  const ModelConfig config = testing::small_configs().back();
  const auto expected = Model::initialize(config, ComputeType::f32, 42);
  const Threads set(1);
  const auto same = Model::initialize(config, ComputeType::bf16, 42);
  const auto other = Model::initialize(config, ComputeType::f32, 43);
  for (const Parameter& parameter : expected->layout().parameters()) {
    const std::vector<float> weights = expected->weight(parameter.name);
    CHECK(same->weight(parameter.name) == weights);
    const bool matrix = parameter.shape.size() == 2;
    CHECK_EQ(other->weight(parameter.name) != weights, matrix);
    if (!matrix) {
      const float value = parameter.name.ends_with("bias") ? 0 : 1;
      CHECK(std::all_of(weights.begin(), weights.end(), [&](float w) { return w == value; }));
      continue;
    }
    const auto n = static_cast<double>(weights.size());
    double mean = 0, squares = 0;
    for (const float w : weights) {
      mean += w / n;
      squares += double{w} * w / n;
    }
    CHECK_NEAR(mean, 0, 5 * 0.02 / std::sqrt(n));  // 5 standard deviations of the estimates
    CHECK_NEAR(squares / 0.0004, 1, 5 * std::sqrt(2 / n));
  }
}

}  // namespace hindsearch
