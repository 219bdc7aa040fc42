// The vocabulary head on the device against the CPU's.
#include <cmath>
#include <limits>

#include "native/backend/temperature.h"
#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {
namespace {

struct Shape {
  std::size_t rows, vocabulary, width;
};
// One segment of the vocabulary, several, whole fours and not, and more rows than one chunk.
const std::vector<Shape> kShapes = {{7, 220, 96}, {1, 1, 4},     {3, 2, 5},     {33, 257, 33},
                                    {9, 1543, 9}, {5, 2501, 40}, {4, 3072, 16}, {4100, 6, 3}};

struct Problem {
  Shape shape;
  Floats hidden, weight, g;
  std::vector<Token> targets;

  explicit Problem(const Shape& s)
      : shape(s),
        hidden(normal(s.rows * s.width, 1)),
        weight(normal(s.vocabulary * s.width, 2, 0.5f)),
        g(normal(s.rows, 4)),
        targets(tokens_below(s.rows, static_cast<std::int64_t>(s.vocabulary), 3)) {}
  std::int64_t rows() const { return static_cast<std::int64_t>(shape.rows); }
  std::int64_t vocabulary() const { return static_cast<std::int64_t>(shape.vocabulary); }
  std::int64_t width() const { return static_cast<std::int64_t>(shape.width); }
};

struct Scores {
  Floats log_probs, log_sums, entropies;
};
struct Gradients {
  Floats hidden, weight;
};

Scores score(const DeviceCase& device, const Problem& p, float temperature, bool entropies = true) {
  const auto hidden = device.upload(p.hidden);
  const DeviceMatrix head = device.matrix(p.weight, p.vocabulary(), p.width());
  const auto log_probs = device.floats(p.shape.rows), log_sums = device.floats(p.shape.rows),
             out = device.floats(p.shape.rows);
  cuda::head_log_probs(device.context(), as_operand(hidden.data(), p.width()), p.rows(),
                       head.view(), temperature, p.targets.data(), log_probs.data(),
                       log_sums.data(), entropies ? out.data() : nullptr);
  return {log_probs.download(), log_sums.download(), out.download()};
}

Scores score(Backend& cpu, const Problem& p, float temperature) {
  Scores out{Floats(p.shape.rows), Floats(p.shape.rows), Floats(p.shape.rows)};
  const auto head = cpu.pack(p.weight.data(), p.vocabulary(), p.width());
  cpu.head_log_probs(as_operand(p.hidden.data(), p.width()), p.rows(), *head, temperature,
                     p.targets.data(), out.log_probs.data(), out.log_sums.data(),
                     out.entropies.data());
  return out;
}

// Adds to the weight's gradient, which begins as what the test says.
Gradients differentiate(const DeviceCase& device, const Problem& p, float temperature,
                        const Floats& log_sums, const Floats& begin) {
  const auto hidden = device.upload(p.hidden), sums = device.upload(log_sums),
             g = device.upload(p.g), d_weight = device.upload(begin);
  const DeviceMatrix head = device.matrix(p.weight, p.vocabulary(), p.width());
  const auto d_hidden = device.floats(p.hidden.size());
  cuda::head_backward(device.context(), as_operand(hidden.data(), p.width()), p.rows(), head.view(),
                      temperature, p.targets.data(), sums.data(), g.data(), d_hidden.data(),
                      d_weight.data());
  return {d_hidden.download(), d_weight.download()};
}

Gradients differentiate(Backend& cpu, const Problem& p, float temperature, const Floats& log_sums,
                        const Floats& begin) {
  Gradients out{Floats(p.hidden.size()), begin};
  const auto head = cpu.pack(p.weight.data(), p.vocabulary(), p.width());
  cpu.head_backward(as_operand(p.hidden.data(), p.width()), p.rows(), *head, p.weight.data(),
                    temperature, p.targets.data(), log_sums.data(), p.g.data(), out.hidden.data(),
                    out.weight.data());
  return out;
}

// Log-sums reach 40, where a float's last bit is 4e-6; the operands of the product are the same
// bf16 numbers on both sides, so bf16 asks for no more room than f32.
TEST(log_probs_are_those_of_the_cpu) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const Shape& shape : kShapes) {
      const Problem problem(shape);
      for (const float temperature : {1.0f, 0.6f, 2.5f}) {
        const Scores actual = score(device, problem, temperature),
                     expected = score(cpu, problem, temperature);
        for (std::size_t r = 0; r < shape.rows; ++r) {
          CHECK_NEAR(actual.log_probs[r], expected.log_probs[r], 1e-5);
          CHECK_NEAR(actual.log_sums[r], expected.log_sums[r], 1e-5);
          CHECK_NEAR(actual.entropies[r], expected.entropies[r], 1e-5);
        }
        if (shape.rows > 1000) break;
      }
    }
  });
}

TEST(every_temperature_has_finite_scores_and_gradients) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    const Problem problem({5, 2501, 40});
    for (const double bound : {kMinTemperature, kMaxTemperature}) {
      const auto temperature = static_cast<float>(bound);
      const Scores scores = score(device, problem, temperature);
      const Gradients gradients = differentiate(device, problem, temperature, scores.log_sums,
                                                Floats(problem.weight.size()));
      for (const Floats& numbers : {scores.log_probs, scores.log_sums, scores.entropies,
                                    gradients.hidden, gradients.weight}) {
        for (const float number : numbers) CHECK(std::isfinite(number));
      }
    }
  });
}

TEST(entropies_are_not_asked_for) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    const Problem problem({5, 1100, 12});
    const Scores with = score(device, problem, 0.8f), without = score(device, problem, 0.8f, false);
    CHECK(same_bits(with.log_probs, without.log_probs));
    CHECK(same_bits(with.log_sums, without.log_sums));
  });
}

TEST(gradients_are_those_of_the_cpu) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const Shape& shape : kShapes) {
      constexpr float kTemperature = 0.7f;
      const Problem problem(shape);
      const Floats log_sums = score(cpu, problem, kTemperature).log_sums,
                   begin = normal(problem.weight.size(), 5);
      const Gradients actual = differentiate(device, problem, kTemperature, log_sums, begin),
                      expected = differentiate(cpu, problem, kTemperature, log_sums, begin);
      // In bf16 both sides round the gradient of each logit, by up to 2^-9 of it, and where they
      // differ in a last bit of f32 not always to the same side.
      const double bound = device.compute() == ComputeType::f32 ? 5e-6 : 4e-3;
      const std::vector<double> hidden(expected.hidden.begin(), expected.hidden.end()),
          weight(expected.weight.begin(), expected.weight.end());
      CHECK(relative_error(actual.weight, weight) < bound);
      if (shape.vocabulary > 1) CHECK(relative_error(actual.hidden, hidden) < bound);
    }
  });
}

// The target of a row that is all but certain: what is left of 1 - p must not be lost with p.
TEST(a_certain_target_has_next_to_no_gradient) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    Problem problem({2, 1030, 1});
    problem.hidden = {1, 1};
    problem.weight.assign(1030, 0);
    problem.weight[1027] = 64;
    problem.targets = {1027, 3};
    problem.g = {1, 1};
    const Scores scores = score(device, problem, 1);
    CHECK_NEAR(scores.log_probs[0], 0, 1e-12);
    CHECK_NEAR(scores.entropies[0], 0, 1e-12);
    const Gradients gradients = differentiate(device, problem, 1, scores.log_sums, Floats(1030));
    CHECK_NEAR(gradients.hidden[0], 0, 1e-6);
    CHECK_NEAR(gradients.hidden[1], -64, 1e-4);
    CHECK_NEAR(gradients.weight[1027], -1, 1e-6);
    CHECK_NEAR(gradients.weight[3], 1, 1e-6);
  });
}

// With a width of one a logit is a single product, the same in whichever order a matrix product
// adds: what the sampler says of a token must then be what the trainer computes, bit for bit.
TEST(a_sampled_token_has_the_log_prob_that_training_computes) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    for (const std::size_t vocabulary : {1, 2, 257, 1543, 3072}) {
      for (const float temperature : {1.0f, 0.6f, 0.0f}) {
        Problem problem({12, vocabulary, 1});
        const Floats hidden = device.compute() == ComputeType::f32
                                  ? problem.hidden
                                  : widened(narrowed(problem.hidden)),
                     weight = device.compute() == ComputeType::f32
                                  ? problem.weight
                                  : widened(narrowed(problem.weight));
        Floats logits;
        std::vector<double> uniforms;
        for (std::size_t r = 0; r < problem.shape.rows; ++r) {
          for (const float w : weight) logits.push_back(hidden[r] * w);
          uniforms.push_back(uniform(8, r, 0));
        }
        const std::vector<Sampling> sampling(problem.shape.rows,
                                             Sampling{.temperature = temperature});
        Floats sampled(problem.shape.rows);
        const auto on_device = device.upload(logits);
        cuda::sample(device.context(), on_device.data(), problem.rows(), problem.vocabulary(),
                     sampling.data(), uniforms.data(), problem.targets.data(), sampled.data());
        const Scores scored = score(device, problem, temperature == 0 ? 1 : temperature);
        CHECK(same_bits(sampled, scored.log_probs));
      }
    }
  });
}

TEST(a_nan_row_gives_nan_and_leaves_the_others) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    Problem problem({3, 1100, 16});
    const Scores before = score(device, problem, 1);
    problem.hidden[16 + 3] = std::numeric_limits<float>::quiet_NaN();
    const Scores after = score(device, problem, 1);
    for (const std::size_t r : {0, 2}) {
      CHECK(same_bits(&after.log_probs[r], &before.log_probs[r], 1));
      CHECK(same_bits(&after.log_sums[r], &before.log_sums[r], 1));
      CHECK(same_bits(&after.entropies[r], &before.entropies[r], 1));
    }
    CHECK(std::isnan(after.log_probs[1]) && std::isnan(after.log_sums[1]) &&
          std::isnan(after.entropies[1]));
  });
}

TEST(no_rows_are_no_work) {
  const DeviceCase device(ComputeType::f32);
  const DeviceMatrix head = device.matrix(Floats(12), 4, 3);
  const auto d_weight = device.upload(Floats(12, 2));
  cuda::head_log_probs(device.context(), {}, 0, head.view(), 1, nullptr, nullptr, nullptr, nullptr);
  cuda::head_backward(device.context(), {}, 0, head.view(), 1, nullptr, nullptr, nullptr, nullptr,
                      d_weight.data());
  cuda::sample(device.context(), nullptr, 0, 4, nullptr, nullptr, nullptr, nullptr);
  CHECK(same_bits(d_weight.download(), Floats(12, 2)));
}

}  // namespace
}  // namespace hindsearch::testing
