// The vocabulary head and the sampler's full-vocabulary path.
#include <limits>

#include "native/backend/temperature.h"
#include "native/test/backends.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

struct Shape {
  std::size_t rows, vocabulary, width;
};
// One chunk, several, several row blocks and groups, odd everything.
const std::vector<Shape> kShapes = {{7, 220, 96},  {1, 1, 4},     {3, 2, 5},    {101, 300, 33},
                                    {40, 1543, 9}, {1100, 60, 9}, {2, 2501, 40}};

struct Case {
  Shape shape;
  float temperature;
  Floats hidden, weight;
  std::vector<Token> targets;
  std::unique_ptr<PackedMatrix> head;
  Floats log_probs, log_sums, entropies;

  Case(Backend& backend, const Shape& s, float t) : shape(s), temperature(t) {
    hidden = normal(s.rows * s.width, 1);
    weight = normal(s.vocabulary * s.width, 2, 0.5f);
    targets = tokens_below(s.rows, static_cast<std::int64_t>(s.vocabulary), 3);
    head = backend.pack(weight.data(), static_cast<std::int64_t>(s.vocabulary),
                        static_cast<std::int64_t>(s.width));
    log_probs.assign(s.rows, 9);
    log_sums.assign(s.rows, 9);
    entropies.assign(s.rows, 9);
    backend.head_log_probs(states(), rows(), *head, temperature, targets.data(), log_probs.data(),
                           log_sums.data(), entropies.data());
  }
  Operand states(std::size_t row = 0) const {
    return as_operand(&hidden[row * shape.width], static_cast<std::int64_t>(shape.width));
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(shape.rows); }
  std::int64_t vocabulary() const { return static_cast<std::int64_t>(shape.vocabulary); }
  reference::Values logits(ComputeType compute) const {
    const auto w =
        reference::transpose(reference::operands(weight, compute), shape.vocabulary, shape.width);
    return reference::product(reference::operands(hidden, compute), w, shape.rows, shape.width,
                              shape.vocabulary);
  }
};

TEST(head_log_probs_match_float64) {
  for_backends([](Backend& backend) {
    for (const Shape& shape : kShapes) {
      for (const float temperature : {1.0f, 0.6f, 2.5f}) {
        const Case c(backend, shape, temperature);
        const auto logits = c.logits(backend.compute());
        for (std::size_t r = 0; r < shape.rows; ++r) {
          const auto expected =
              reference::softmax(&logits[r * shape.vocabulary], shape.vocabulary, temperature);
          CHECK_NEAR(c.log_probs[r], expected.log_probs[static_cast<std::size_t>(c.targets[r])],
                     1e-5);
          CHECK_NEAR(c.log_sums[r], expected.log_sum, 1e-5);
          CHECK_NEAR(c.entropies[r], expected.entropy, 1e-5);
        }
      }
    }
  });
}

TEST(head_backward_matches_float64) {
  for_backends([](Backend& backend) {
    for (const Shape& s : kShapes) {
      constexpr float kTemperature = 0.7f;
      const Case c(backend, s, kTemperature);
      const Floats g = normal(s.rows, 4);
      Floats d_hidden(c.hidden.size(), 9), d_weight = normal(c.weight.size(), 5);
      auto expected_weight = reference::widen(d_weight);
      backend.head_backward(c.states(), c.rows(), *c.head, c.weight.data(), kTemperature,
                            c.targets.data(), c.log_sums.data(), g.data(), d_hidden.data(),
                            d_weight.data());

      auto d_logits = c.logits(backend.compute());
      for (std::size_t r = 0; r < s.rows; ++r) {
        double* row = &d_logits[r * s.vocabulary];
        const auto distribution = reference::softmax(row, s.vocabulary, kTemperature);
        for (std::size_t i = 0; i < s.vocabulary; ++i) {
          const double hit = static_cast<std::size_t>(c.targets[r]) == i ? 1 : 0;
          row[i] = g[r] * (hit - std::exp(distribution.log_probs[i])) / kTemperature;
        }
      }
      const auto hidden = reference::operands(c.hidden, backend.compute());
      const auto weight = reference::operands(c.weight, backend.compute());
      const auto expected_hidden =
          reference::product(d_logits, weight, s.rows, s.vocabulary, s.width);
      const auto sums = reference::product(reference::transpose(d_logits, s.rows, s.vocabulary),
                                           hidden, s.vocabulary, s.rows, s.width);
      for (std::size_t i = 0; i < sums.size(); ++i) expected_weight[i] += sums[i];
      // In bf16 the d_logits are rounded too, each by up to 2^-9.
      const double bound = backend.compute() == ComputeType::f32 ? 5e-6 : 4e-3;
      CHECK(relative_error(d_weight, expected_weight) < bound);
      if (s.vocabulary > 1) CHECK(relative_error(d_hidden, expected_hidden) < bound);
    }
  });
}

// At both ends of the temperatures nothing overflows, even of logits that no sound model has.
TEST(every_temperature_has_finite_scores_and_gradients) {
  for_backends([](Backend& backend) {
    for (const double temperature : {kMinTemperature, kMaxTemperature}) {
      const Shape shape{7, 1600, 40};
      Case c(backend, shape, static_cast<float>(temperature));
      for (const float scale : {1.0f, 1e28f}) {
        for (float& x : c.hidden) x *= scale;
        backend.head_log_probs(c.states(), c.rows(), *c.head, c.temperature, c.targets.data(),
                               c.log_probs.data(), c.log_sums.data(), c.entropies.data());
        const Floats g = normal(shape.rows, 4);
        Floats d_hidden(c.hidden.size()), d_weight(c.weight.size());
        backend.head_backward(c.states(), c.rows(), *c.head, c.weight.data(), c.temperature,
                              c.targets.data(), c.log_sums.data(), g.data(), d_hidden.data(),
                              d_weight.data());
        for (const Floats& numbers : {c.log_probs, c.log_sums, c.entropies, d_hidden, d_weight}) {
          for (const float number : numbers) CHECK(std::isfinite(number));
        }
      }
    }
  });
}

TEST(head_does_not_depend_on_threads_or_batch) {
  for_backends([](Backend& backend) {
    const Shape shape{110, 1600, 40};
    Floats d_hidden_first, d_weight_first;
    const Case first(backend, shape, 0.8f);
    const Floats g = normal(shape.rows, 4);
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      const Case c(backend, shape, 0.8f);
      CHECK(same_bits(c.log_probs, first.log_probs));
      CHECK(same_bits(c.log_sums, first.log_sums));
      CHECK(same_bits(c.entropies, first.entropies));
      Floats d_hidden(c.hidden.size()), d_weight(c.weight.size());
      backend.head_backward(c.states(), c.rows(), *c.head, c.weight.data(), 0.8f, c.targets.data(),
                            c.log_sums.data(), g.data(), d_hidden.data(), d_weight.data());
      if (threads == 1) {
        d_hidden_first = d_hidden;
        d_weight_first = d_weight;
      }
      CHECK(same_bits(d_hidden, d_hidden_first));
      CHECK(same_bits(d_weight, d_weight_first));
    }
    for (std::size_t r = 0; r < shape.rows; r += 13) {
      float log_prob, log_sum;
      backend.head_log_probs(first.states(r), 1, *first.head, 0.8f, &first.targets[r], &log_prob,
                             &log_sum, nullptr);
      CHECK(same_bits(&log_prob, &first.log_probs[r], 1));
      CHECK(same_bits(&log_sum, &first.log_sums[r], 1));
    }
  });
}

TEST(a_sampled_token_has_the_log_prob_that_training_computes) {
  for_backends([](Backend& backend) {
    for (const Shape& shape : kShapes) {
      for (const float temperature : {1.0f, 0.6f, 1.7f}) {
        const Case c(backend, shape, temperature);
        std::vector<Sampling> sampling(shape.rows);
        for (Sampling& s : sampling) s.temperature = temperature;
        std::vector<double> uniforms(shape.rows);
        for (std::size_t r = 0; r < shape.rows; ++r) uniforms[r] = uniform(8, r, 0);
        std::vector<Token> tokens(shape.rows);
        Floats logits(shape.rows * shape.vocabulary), sampled(shape.rows), scored(shape.rows),
            sums(shape.rows);
        // Two rows at a time, as a decoder would with a small batch.
        for (std::size_t r = 0; r < shape.rows; r += 2) {
          const std::size_t count = std::min<std::size_t>(2, shape.rows - r);
          backend.head_logits(c.states(r), static_cast<std::int64_t>(count), *c.head,
                              &logits[r * shape.vocabulary]);
          backend.sample(&logits[r * shape.vocabulary], static_cast<std::int64_t>(count),
                         c.vocabulary(), &sampling[r], &uniforms[r], &tokens[r], &sampled[r]);
        }
        backend.head_log_probs(c.states(), c.rows(), *c.head, temperature, tokens.data(),
                               scored.data(), sums.data(), nullptr);
        CHECK(same_bits(sampled, scored));
      }
      // Greedy: temperature 1 of the untruncated distribution.
      const Case c(backend, shape, 1);
      const std::vector<Sampling> greedy(shape.rows, Sampling{.temperature = 0});
      const std::vector<double> uniforms(shape.rows, 0.5);
      std::vector<Token> tokens(shape.rows);
      Floats logits(shape.rows * shape.vocabulary), sampled(shape.rows), scored(shape.rows),
          sums(shape.rows);
      backend.head_logits(c.states(), c.rows(), *c.head, logits.data());
      backend.sample(logits.data(), c.rows(), c.vocabulary(), greedy.data(), uniforms.data(),
                     tokens.data(), sampled.data());
      backend.head_log_probs(c.states(), c.rows(), *c.head, 1, tokens.data(), scored.data(),
                             sums.data(), nullptr);
      CHECK(same_bits(sampled, scored));
    }
  });
}

TEST(a_nan_row_gives_nan_and_leaves_the_others) {
  for_backends([](Backend& backend) {
    const Shape shape{3, 1000, 16};
    Case c(backend, shape, 1);
    const Floats expected = c.log_probs;
    c.hidden[shape.width + 3] = std::numeric_limits<float>::quiet_NaN();
    backend.head_log_probs(c.states(), 3, *c.head, 1, c.targets.data(), c.log_probs.data(),
                           c.log_sums.data(), c.entropies.data());
    CHECK(same_bits(&c.log_probs[0], &expected[0], 1));
    CHECK(std::isnan(c.log_probs[1]) && std::isnan(c.log_sums[1]) && std::isnan(c.entropies[1]));
    CHECK(same_bits(&c.log_probs[2], &expected[2], 1));
  });
}

TEST(states_that_were_rounded_score_as_floats_do) {
  for_backends([](Backend& backend) {
    for (const Shape& shape : kShapes) {
      Case c(backend, shape, 0.8f);
      const auto rows = c.rows(), width = static_cast<std::int64_t>(shape.width);
      const Floats x = normal(c.hidden.size(), 5), norm = normal(shape.width, 6);
      backend.rms_norm({x.data(), rows, 1, width, width}, norm.data(), 1e-6f,
                       {c.hidden.data(), rows, 1, width, width}, nullptr);
      Floats memory(x.size());
      const Operand rounded = backend.rms_norm_operand(x.data(), rows, width, norm.data(), 1e-6f,
                                                       memory.data(), nullptr);
      const auto run = [&](const Operand& states) {
        Floats log_probs(shape.rows), log_sums(shape.rows), d_hidden(x.size()),
            d_weight(c.weight.size());
        backend.head_log_probs(states, rows, *c.head, c.temperature, c.targets.data(),
                               log_probs.data(), log_sums.data(), nullptr);
        backend.head_backward(states, rows, *c.head, c.weight.data(), c.temperature,
                              c.targets.data(), log_sums.data(), log_probs.data(), d_hidden.data(),
                              d_weight.data());
        return std::vector<Floats>{log_probs, log_sums, d_hidden, d_weight};
      };
      const auto actual = run(rounded), expected = run(c.states());
      for (std::size_t i = 0; i < actual.size(); ++i) CHECK(same_bits(actual[i], expected[i]));
    }
  });
}

}  // namespace
}  // namespace hindsearch::testing
