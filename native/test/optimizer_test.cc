#include "native/test/backends.h"

namespace hindsearch::testing {
namespace {

TEST(adamw_matches_float64) {
  for_instruction_sets([](Backend& backend) {
    for (const std::size_t count : {1, 17, 9000}) {
      Floats w = normal(count, 1), m(count), v(count);
      std::vector<double> w64(w.begin(), w.end()), m64(count), v64(count);
      for (std::int64_t step = 1; step <= 20; ++step) {
        const Floats g = normal(count, 100 + static_cast<std::uint64_t>(step), 0.1f);
        const AdamWStep how{.learning_rate = 1e-2f,
                            .beta1 = 0.9f,
                            .beta2 = 0.95f,
                            .epsilon = 1e-8f,
                            .weight_decay = 0.1f,
                            .step = step,
                            .gradient_scale = 0.5f};
        backend.adamw(w.data(), g.data(), m.data(), v.data(), static_cast<std::int64_t>(count),
                      how);
        const double correct1 = 1 - std::pow(double{how.beta1}, static_cast<double>(step));
        const double correct2 = 1 - std::pow(double{how.beta2}, static_cast<double>(step));
        for (std::size_t i = 0; i < count; ++i) {
          const double gradient = double{g[i]} * how.gradient_scale;
          m64[i] = how.beta1 * m64[i] + (1 - double{how.beta1}) * gradient;
          v64[i] = how.beta2 * v64[i] + (1 - double{how.beta2}) * gradient * gradient;
          w64[i] *= 1 - double{how.learning_rate} * how.weight_decay;
          w64[i] -= how.learning_rate * (m64[i] / correct1) /
                    (std::sqrt(v64[i] / correct2) + how.epsilon);
        }
      }
      for (std::size_t i = 0; i < count; ++i)
        CHECK_NEAR(w[i], w64[i], 2e-6 * std::max(1.0, std::abs(w64[i])));
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
      const AdamWStep how{.learning_rate = 1e-2f,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .epsilon = 1e-8f,
                          .weight_decay = 0.1f,
                          .step = 1,
                          .gradient_scale = 1};
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

}  // namespace
}  // namespace hindsearch::testing
