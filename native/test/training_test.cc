// Optimizer steps, snapshots, resuming, memory.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "native/core/error.h"
#include "native/test/rote_task.h"
#include "native/test/testing.h"

namespace hindsearch {

TEST(training_lowers_the_loss) {
  const auto m = testing::full_model();
  const testing::RoteTask task;
  const double before = m->forward_backward(task.packed, task.objective, {}).loss;
  m->step(testing::fast_options());
  for (int i = 0; i < 30; ++i) {
    m->forward_backward(task.packed, task.objective, {});
    m->step(testing::fast_options());
  }
  CHECK(m->forward_backward(task.packed, task.objective, {}).loss < 0.2 * before);
}

TEST(gradients_add_up_until_the_step) {
  const auto m = testing::full_model();
  const testing::RoteTask task;
  CHECK_EQ(m->gradient_norm(), 0.0);
  m->forward_backward(task.packed, task.objective, {});
  const double once = m->gradient_norm();
  m->forward_backward(task.packed, task.objective, {});
  CHECK_NEAR(m->gradient_norm() / once, 2, 1e-5);
  const OptimizerResult result = m->step(testing::fast_options());
  CHECK_NEAR(result.gradient_norm / once, 2, 1e-5);
  CHECK_EQ(m->gradient_norm(), 0.0);
  m->forward_backward(task.packed, task.objective, {});
  m->zero_gradients();
  CHECK_EQ(m->gradient_norm(), 0.0);
}

TEST(a_learning_rate_of_zero_changes_no_weight) {
  const auto m = testing::full_model();
  const testing::RoteTask task;
  const std::vector<float> weights = testing::all_weights(*m);
  const std::uint64_t version = m->version();
  m->forward_backward(task.packed, task.objective, {});
  OptimizerOptions o;
  const std::int64_t step = m->optimizer_step();
  CHECK_EQ(m->step(o).step, step + 1);
  CHECK_EQ(m->version(), version);
  CHECK(testing::all_weights(*m) == weights);
}

// Updates far below the spacing of bf16 numbers add up, because master weights and moments are f32.
TEST(small_updates_are_kept_in_bf16) {
  const auto m = testing::random_model(testing::small_config(), ComputeType::bf16);
  const testing::RoteTask task;
  OptimizerOptions o;
  o.learning_rate = 1e-6f;
  o.weight_decay = 0;
  const std::vector<float> before = m->weight("model.norm.weight");
  for (int i = 0; i < 100; ++i) {
    m->forward_backward(task.packed, task.objective, {});
    m->step(o);
  }
  const std::vector<float> after = m->weight("model.norm.weight");
  double moved = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    moved = std::max(moved, std::abs(double{after[i]} - before[i]));
  }
  CHECK(moved > 5e-5 && moved < 1.1e-4);  // Adam moves a steady weight by the learning rate a step
}

TEST(nothing_to_learn_gives_zero) {
  const auto m = testing::full_model();
  testing::RoteTask task;
  task.objective.weights.assign(task.packed.tokens.size(), 0);
  const ObjectiveResult result = m->forward_backward(task.packed, task.objective, {});
  CHECK_EQ(result.loss, 0.0);
  CHECK_EQ(m->gradient_norm(), 0.0);
  const PackedSequences empty{{}, {0}};
  task.objective.weights.clear();
  CHECK_EQ(m->forward_backward(empty, task.objective, {}).loss, 0.0);
  CHECK_EQ(m->score(empty, {1, {}, true}).log_probs.size(), 0u);
}

TEST(snapshots_keep_their_weights) {
  const auto m = testing::full_model();
  const testing::RoteTask task;
  const ScoreOptions score_options{1, {1, 1, 1}, true};
  const auto before = m->snapshot();
  const std::vector<float> expected = m->score(task.packed, score_options).log_probs;
  m->forward_backward(task.packed, task.objective, {});
  m->step(testing::fast_options());
  CHECK(m->score(task.packed, score_options).log_probs != expected);
  CHECK(before->score(task.packed, score_options).log_probs == expected);
  CHECK(m->version() > before->version());
  CHECK(before->frozen() && !m->frozen());
  CHECK_ERROR(code::kInvalidArgument, before->step(testing::fast_options()));
  CHECK_ERROR(code::kInvalidArgument, before->forward_backward(task.packed, task.objective, {}));
}

// k steps, saving, loading and n - k steps are n steps, bit for bit.
TEST(resuming_continues_bit_for_bit) {
  const auto straight = testing::full_model();
  const testing::RoteTask task;
  const auto advance = [&](Model& m) {
    m.forward_backward(task.packed, task.objective, {});
    m.step(testing::fast_options());
  };
  advance(*straight);
  char path[] = "/tmp/hindsearch-XXXXXX";
  CHECK(::mkstemp(path) >= 0);
  std::vector<TensorSink> sinks;
  std::vector<std::vector<TensorSource>> sources(3);
  std::uint64_t offset = 8;
  for (const Arena arena : {Arena::weights, Arena::first_moments, Arena::second_moments}) {
    for (const Parameter& parameter : straight->layout().parameters()) {
      sinks.push_back({parameter.name, StorageType::f32, arena});
      const auto bytes = static_cast<std::uint64_t>(4 * parameter.size);
      sources[static_cast<std::size_t>(arena)].push_back(
          {parameter.name, path, offset, bytes, StorageType::f32, parameter.shape});
      offset += bytes;
    }
  }
  straight->save(path, "", sinks);
  const auto resumed = Model::load(straight->config(), ComputeType::f32, sources[0]);
  resumed->load_arena(Arena::first_moments, sources[1]);
  resumed->load_arena(Arena::second_moments, sources[2]);
  resumed->set_optimizer_step(straight->optimizer_step());
  std::remove(path);
  advance(*straight);
  CHECK(testing::all_weights(*resumed) != testing::all_weights(*straight));
  advance(*resumed);
  CHECK(testing::all_weights(*resumed) == testing::all_weights(*straight));
}

// Logits of the whole batch would be 480 MB; the weights, their copies, gradients and activations
// of this model are some 40 MB.
TEST(peak_memory_does_not_hold_tokens_times_vocabulary) {
  ModelConfig config = testing::small_config();
  config.hidden = 16;
  config.layers = 1;
  config.tied = true;
  config.vocabulary = config.token_limit = 60000;
  config.max_positions = 1000;
  const auto m = Model::initialize(config, ComputeType::f32, 1);
  PackedSequences packed;
  packed.offsets = {0, 1000, 2000};
  std::mt19937 random(1);
  packed.tokens = testing::random_tokens(random, 2000, config.token_limit);
  Objective objective;
  objective.policy.weight = 0;
  objective.cross_entropy.weight = 1;
  objective.weights.assign(2000, 1);
  objective.weights[0] = objective.weights[1000] = 0;
  const auto peak = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  m->forward_backward(packed, objective, {});
  m->score(packed, {1, {1, 1}, true});
  CHECK(peak() - before < 150 * 1024);
}

}  // namespace hindsearch
