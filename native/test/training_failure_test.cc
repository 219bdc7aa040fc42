// What is wrong is refused, and what fails half way leaves the model as it was.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "native/core/error.h"
#include "native/test/rote_task.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

// Sets entry 0 of a parameter by way of a checkpoint file.
void overwrite(Model& m, const std::string& name, float value) {
  char path[] = "/tmp/hindsearch-XXXXXX";
  const int descriptor = ::mkstemp(path);
  CHECK(descriptor >= 0);
  std::FILE* file = ::fdopen(descriptor, "wb");
  std::vector<TensorSource> sources;
  for (const Parameter& parameter : m.layout().parameters()) {
    std::vector<float> weights = m.weight(parameter.name);
    if (parameter.name == name) weights[0] = value;
    const auto bytes = static_cast<std::uint64_t>(4 * weights.size());
    sources.push_back({parameter.name, path, static_cast<std::uint64_t>(4 * parameter.offset),
                       bytes, StorageType::f32, parameter.shape});
    std::fwrite(weights.data(), 4, weights.size(), file);
  }
  std::fclose(file);
  m.load_arena(Arena::weights, sources);
  std::remove(path);
}

}  // namespace

TEST(wrong_batches_are_refused) {
  const auto m = testing::full_model();
  const ScoreOptions one{1, {1}, false};
  const auto refused = [&](const PackedSequences& packed, const ScoreOptions& o, const char* part) {
    const std::string message = CHECK_ERROR(code::kInvalidArgument, m->score(packed, o));
    if (message.find(part) == std::string::npos) throw std::runtime_error("message: " + message);
  };
  refused({{1, 2}, {}}, one, "offsets must start with 0");
  refused({{1, 2}, {0, 1}}, one, "offsets end at 1");
  refused({{1, 2}, {0, 2, 2}}, one, "sequence 1 spans");
  refused({{1, 2}, {0, 3, 2}}, one, "sequence 0 spans");
  refused({{1, -1}, {0, 2}}, one, "token -1 of sequence 0, position 1");
  refused({std::vector<Token>(301, 1), {0, 301}}, one,
          "301 tokens, the model's longest sequence has 300");
  refused({{1, 2}, {0, 2}}, {1, {0}, false}, "first of sequence 0 is 0");
  refused({{1, 2}, {0, 2}}, {1, {3}, false}, "first of sequence 0 is 3");
  refused({{1, 2}, {0, 2}}, {1, {}, false}, "first has 0 entries");
  refused({{1, 2}, {0, 2}}, {1, {1}, false, 0}, "micro_batch_tokens");
}

TEST(wrong_temperatures_are_refused) {
  const auto m = testing::full_model();
  for (const float bad : {0.0f, -1.0f, 1e-45f, 1e-38f, 9.9e-5f, 1.01e4f, INFINITY, NAN}) {
    TrainOptions options;
    options.temperature = bad;
    CHECK_ERROR(code::kInvalidArgument, m->score({{1, 2}, {0, 2}}, {bad, {1}, false}));
    CHECK_ERROR(code::kInvalidArgument, m->forward_backward({{1, 2}, {0, 2}}, {}, options));
  }
  CHECK_EQ(CHECK_ERROR(code::kInvalidArgument, m->score({{1, 2}, {0, 2}}, {0x1p-20f, {1}, false})),
           std::string("score: temperature is 9.5367432e-07, expected 0.0001 to 10000"));
}

TEST(wrong_optimizer_options_are_refused) {
  const auto m = testing::full_model();
  const auto refused = [&](auto change, const char* part) {
    OptimizerOptions o = testing::fast_options();
    change(o);
    const std::string message = CHECK_ERROR(code::kInvalidArgument, m->step(o));
    CHECK(message.find(part) != std::string::npos);
  };
  refused([](OptimizerOptions& o) { o.learning_rate = NAN; }, "learning_rate is nan");
  refused([](OptimizerOptions& o) { o.learning_rate = -1; }, "learning_rate");
  refused([](OptimizerOptions& o) { o.beta1 = 1; }, "beta1");
  refused([](OptimizerOptions& o) { o.beta2 = -0.1f; }, "beta2");
  refused([](OptimizerOptions& o) { o.epsilon = 0; }, "epsilon");
  refused([](OptimizerOptions& o) { o.weight_decay = INFINITY; }, "weight_decay");
  refused([](OptimizerOptions& o) { o.max_gradient_norm = -1; }, "max_gradient_norm");
}

TEST(nan_names_sequence_and_position) {
  const auto m = testing::full_model();
  testing::RoteTask task;
  m->forward_backward(task.packed, task.objective, {});
  CHECK(m->gradient_norm() > 0);
  // Token 0 stands at position 1 of sequence 1: what it predicts, at position 2, is not a number.
  overwrite(*m, "model.embed_tokens.weight", NAN);
  task.packed.tokens[7] = 0;
  const std::string trained =
      CHECK_ERROR(code::kNonFinite, m->forward_backward(task.packed, task.objective, {}));
  const std::string scored =
      CHECK_ERROR(code::kNonFinite, m->score(task.packed, {1, {1, 1, 1}, true}));
  CHECK(trained.find("sequence 1, position 2") != std::string::npos);
  CHECK(scored.find("sequence 1, position 2") != std::string::npos);
  CHECK_EQ(m->gradient_norm(), 0.0);  // those of before as well
  // Behind the last token that a mask looks at, no row is run.
  task.objective.weights[8] = 0;
  CHECK(std::isfinite(m->forward_backward(task.packed, task.objective, {}).loss));
  CHECK(!m->step(testing::fast_options()).skipped);
}

TEST(a_refused_call_keeps_the_gradients_of_before) {
  const auto m = testing::full_model();
  const testing::RoteTask task;
  m->forward_backward(task.packed, task.objective, {});
  const double norm = m->gradient_norm();
  CHECK(norm > 0);
  TrainOptions options;
  options.micro_batch_tokens = 0;
  CHECK_ERROR(code::kInvalidArgument, m->forward_backward(task.packed, task.objective, options));
  CHECK_EQ(m->gradient_norm(), norm);
}

TEST(cancelled_calls_leave_no_gradient) {
  const auto m = testing::full_model();
  const testing::RoteTask task;
  m->forward_backward(task.packed, task.objective, {});
  const std::vector<float> weights = testing::all_weights(*m);
  const CancelFlag cancelled = true;
  CHECK_ERROR(code::kAborted, m->forward_backward(task.packed, task.objective, {}, &cancelled));
  CHECK_EQ(m->gradient_norm(), 0.0);
  CHECK(testing::all_weights(*m) == weights);
  CHECK_ERROR(code::kAborted, m->score(task.packed, {1, {1, 1, 1}, true}, &cancelled));
}

// With a vocabulary this large nearly all of the time goes into the head, for one micro-batch.
TEST(cancelling_does_not_wait_for_the_vocabulary_head) {
  ModelConfig config = testing::small_config();
  config.hidden = 16;
  config.layers = 1;
  config.vocabulary = config.token_limit = 30000;
  config.max_positions = 1000;
  const auto m = Model::initialize(config, ComputeType::f32, 1);
  std::mt19937 random(1);
  const PackedSequences packed =
      testing::pack(std::vector(8, testing::random_tokens(random, 1000, 30000)));
  Objective objective;
  objective.policy.weight = 0;
  objective.cross_entropy.weight = 1;
  objective.weights.assign(8000, 1);
  for (std::size_t b = 0; b < 8; ++b) objective.weights[1000 * b] = 0;
  TrainOptions options;
  options.micro_batch_tokens = 8000;
  const auto cancelled_share = [](const auto& run) {
    const auto cpu = [] { return static_cast<double>(std::clock()); };
    CancelFlag cancelled = false;
    const double start = cpu();
    const auto wall = std::chrono::steady_clock::now();
    run(cancelled);
    const double whole = cpu() - start;
    const auto early = (std::chrono::steady_clock::now() - wall) / 20;
    const std::jthread canceller([&] {
      std::this_thread::sleep_for(early);
      cancelled = true;
    });
    const double again = cpu();
    CHECK_ERROR(code::kAborted, run(cancelled));
    return (cpu() - again) / whole;
  };
  CHECK(cancelled_share([&](const CancelFlag& cancelled) {
          m->score(packed, {1, std::vector<std::int64_t>(8, 1), false, 8000}, &cancelled);
        }) < 0.6);
  CHECK(cancelled_share([&](const CancelFlag& cancelled) {
          m->forward_backward(packed, objective, options, &cancelled);
        }) < 0.6);
}

TEST(a_gradient_that_is_not_finite_skips_the_step) {
  const auto m = testing::full_model();
  testing::RoteTask task;
  m->forward_backward(task.packed, task.objective, {});
  m->step(testing::fast_options());
  const std::vector<float> weights = testing::all_weights(*m);
  const std::uint64_t version = m->version();
  const std::int64_t step = m->optimizer_step();
  task.objective.cross_entropy.weight = std::numeric_limits<float>::max();
  task.objective.total_weight = 1;
  m->forward_backward(task.packed, task.objective, {});
  const OptimizerResult result = m->step(testing::fast_options());
  CHECK(result.skipped);
  CHECK(!std::isfinite(result.gradient_norm));
  CHECK_EQ(result.step, step);
  CHECK_EQ(m->version(), version);
  CHECK(testing::all_weights(*m) == weights);
  CHECK_EQ(m->gradient_norm(), 0.0);
}

}  // namespace hindsearch
