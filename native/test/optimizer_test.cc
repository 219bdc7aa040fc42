#include <string>

#include "native/test/backends.h"
#include "native/test/json.h"
#include "native/test/shared.h"

namespace hindsearch::testing {
namespace {

TEST(adamw_matches_float64) {
  for_instruction_sets([](Backend& backend) {
    for (const std::size_t count : {1, 17, 9000}) {
      Floats w = normal(count, 1), m(count), v(count);
      std::vector<double> w64(w.begin(), w.end()), m64(count), v64(count);
      for (std::int64_t step = 1; step <= 20; ++step) {
        const Floats g = normal(count, 100 + static_cast<std::uint64_t>(step), 0.1f);
        const AdamWStep how{.learning_rate = 1e-2f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f,
                            .weight_decay = 0.1f, .step = step, .gradient_scale = 0.5f};
        backend.adamw(w.data(), g.data(), m.data(), v.data(), static_cast<std::int64_t>(count), how);
        const double correct1 = 1 - std::pow(double{how.beta1}, static_cast<double>(step));
        const double correct2 = 1 - std::pow(double{how.beta2}, static_cast<double>(step));
        for (std::size_t i = 0; i < count; ++i) {
          const double gradient = double{g[i]} * how.gradient_scale;
          m64[i] = how.beta1 * m64[i] + (1 - double{how.beta1}) * gradient;
          v64[i] = how.beta2 * v64[i] + (1 - double{how.beta2}) * gradient * gradient;
          w64[i] *= 1 - double{how.learning_rate} * how.weight_decay;
          w64[i] -= how.learning_rate * (m64[i] / correct1) / (std::sqrt(v64[i] / correct2) + how.epsilon);
        }
      }
      for (std::size_t i = 0; i < count; ++i) CHECK_NEAR(w[i], w64[i], 2e-6 * std::max(1.0, std::abs(w64[i])));
      CHECK(relative_error(m, m64) < 1e-6);
      CHECK(relative_error(v, v64) < 1e-6);
    }
  });
}

TEST(optimizer_does_not_depend_on_threads) {
  for_instruction_sets([](Backend& backend) {
    constexpr std::size_t kCount = 300001;
    const Floats g = normal(kCount, 1);
    Floats first;
    double first_sum = 0;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      Floats w = normal(kCount, 2), m(kCount), v(kCount);
      const AdamWStep how{.learning_rate = 1e-2f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f,
                          .weight_decay = 0.1f, .step = 1, .gradient_scale = 1};
      backend.adamw(w.data(), g.data(), m.data(), v.data(), kCount, how);
      const double sum = backend.sum_of_squares(g.data(), kCount);
      if (threads == 1) {
        first = w;
        first_sum = sum;
      }
      CHECK(same_bits(w, first));
      CHECK_EQ(sum, first_sum);
    }
    double expected = 0;
    for (const float x : g) expected += double{x} * x;
    CHECK_NEAR(first_sum, expected, 1e-10 * expected);
  });
}

// All tensors one after the other.
Floats flat(const Json& tensors) {
  Floats out;
  for (const Json& tensor : tensors.items()) {
    for (const Json& value : tensor.items()) out.push_back(static_cast<float>(value.number()));
  }
  return out;
}

SHARED_TEST(adamw_matches_the_golden_table) {
  const Json table = Json::load(shared + "/golden/scalars/adamw.json");
  CHECK(table["cases"].size() >= 9);
  for_instruction_sets([&](Backend& backend) {
    for (const Json& c : table["cases"].items()) {
      const Json& hyper = c["hyper"];
      Floats w = flat(c["param0"]), m(w.size()), v(w.size());
      const auto all = static_cast<std::int64_t>(w.size());
      const auto matrices = static_cast<std::int64_t>(c["param0"][0].size());  // the others are vectors
      const bool tiny = c["name"].string().find("tiny gradients") != std::string::npos;
      for (std::size_t step = 1; step <= c["grads"].size(); ++step) {
        const Floats g = flat(c["grads"][step - 1]);
        double scale = 1;
        if (!c["grad_clip_max_norm"].is_null()) {
          const double norm = std::sqrt(backend.sum_of_squares(g.data(), all));
          scale = std::min(1.0, c["grad_clip_max_norm"].number() / (norm + 1e-6));
        }
        AdamWStep how{.learning_rate = static_cast<float>(c["lr_used"][step - 1].number()),
                      .beta1 = static_cast<float>(hyper["betas"][0].number()),
                      .beta2 = static_cast<float>(hyper["betas"][1].number()),
                      .epsilon = static_cast<float>(hyper["eps"].number()),
                      .weight_decay = static_cast<float>(hyper["weight_decay"].number()),
                      .step = static_cast<std::int64_t>(step),
                      .gradient_scale = static_cast<float>(scale)};
        const bool split = c["decay_only_on_matrices"].boolean();
        backend.adamw(w.data(), g.data(), m.data(), v.data(), split ? matrices : all, how);
        if (split) {
          how.weight_decay = 0;
          backend.adamw(w.data() + matrices, g.data() + matrices, m.data() + matrices, v.data() + matrices,
                        all - matrices, how);
        }
        const Json& after = c["f64"]["param_after_step"];
        if (!after.has(std::to_string(step))) continue;
        const auto& tensors = after[std::to_string(step)];
        std::size_t i = 0;
        for (const Json& tensor : tensors.items()) {
          for (const Json& value : tensor.items()) {
            CHECK_NEAR(w[i], value.number(), (tiny ? 1e-5 : 2e-6) * std::max(std::abs(value.number()), 1e-3));
            ++i;
          }
        }
        CHECK_EQ(i, w.size());
      }
    }
  });
}

}  // namespace
}  // namespace hindsearch::testing
