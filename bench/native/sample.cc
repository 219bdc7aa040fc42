// Drawing a token: milliseconds a row, the median of many calls over a batch of rows, with the
// settings people use, over three shapes of distribution. The first line of a vocabulary is the
// untruncated draw, which needs one pass of exponentials.
//
//   sample_bench [rows] [threads] [vocabulary...]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/native/measure.h"
#include "native/backend/backend.h"
#include "native/core/random.h"

namespace hindsearch {
namespace {

struct Setting {
  const char* name;
  Sampling sampling;
};
constexpr Setting kSettings[] = {
    {"untruncated", {}},
    {"greedy", {.temperature = 0}},
    {"top-p 0.95", {.top_p = 0.95f}},
    {"top-p 0.5", {.top_p = 0.5f}},
    {"top-k 50", {.top_k = 50}},
    {"top-k 5000", {.top_k = 5000}},
    {"min-p 0.05", {.min_p = 0.05f}},
    {"top-p 0.95, t 0.6", {.temperature = 0.6f, .top_p = 0.95f}},
    {"top-k 50, top-p 0.95", {.top_k = 50, .top_p = 0.95f}},
    {"top-p 0.95, min-p 0.05", {.top_p = 0.95f, .min_p = 0.05f}},
    {"all three", {.temperature = 0.7f, .top_k = 50, .top_p = 0.9f, .min_p = 0.05f}},
};

// Logits of a language model: normal, with a handful that stand out (peaked) or none (flat); or all
// the same.
std::vector<float> logits(const std::string& shape, std::int64_t rows, std::int64_t vocabulary) {
  std::vector<float> out(static_cast<std::size_t>(rows * vocabulary));
  if (shape == "equal") return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(1, i, 0)));
    const double normal = radius * std::cos(6.283185307179586 * uniform(1, i, 1));
    out[i] = static_cast<float>(shape == "flat" ? normal : 2 * normal);
  }
  if (shape == "peaked") {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < 8; ++i) {
        const double where =
            uniform(2, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(i));
        out[static_cast<std::size_t>(
            r * vocabulary + static_cast<std::int64_t>(where * static_cast<double>(vocabulary)))] =
            static_cast<float>(18 - 0.7 * static_cast<double>(i));
      }
    }
  }
  return out;
}

double median_seconds(const std::function<void()>& body) {
  const clockid_t clock = thread_count() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> times;
  body();
  const double until = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) + 0.2;
  while (times.size() < 5 || clock_seconds(CLOCK_PROCESS_CPUTIME_ID) < until) {
    const double start = clock_seconds(clock);
    body();
    times.push_back(clock_seconds(clock) - start);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

void run(std::int64_t rows, std::int64_t vocabulary) {
  constexpr const char* kShapes[] = {"peaked", "flat", "equal"};
  const auto backend = make_backend(ComputeType::f32);
  std::printf("%s, vocabulary %lld, %lld row(s), %d thread(s): ms a row\n  %-24s",
              instruction_set(), static_cast<long long>(vocabulary), static_cast<long long>(rows),
              thread_count(), "");
  std::vector<std::vector<float>> shapes;
  for (const char* shape : kShapes) {
    shapes.push_back(logits(shape, rows, vocabulary));
    std::printf(" %9s", shape);
  }
  std::printf("\n");
  const auto count = static_cast<std::size_t>(rows);
  std::vector<double> uniforms(count);
  for (std::size_t r = 0; r < count; ++r) uniforms[r] = uniform(3, r, 0);
  std::vector<Token> tokens(count);
  std::vector<float> log_probs(count);
  for (const Setting& setting : kSettings) {
    const std::vector<Sampling> sampling(count, setting.sampling);
    std::printf("  %-24s", setting.name);
    for (auto& shape : shapes) {
      const double seconds = median_seconds([&] {
        backend->sample(shape.data(), rows, vocabulary, sampling.data(), uniforms.data(),
                        tokens.data(), log_probs.data());
      });
      std::printf(" %9.4f", 1e3 * seconds / static_cast<double>(rows));
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  using namespace hindsearch;
  const std::int64_t rows = argc > 1 ? std::atoll(argv[1]) : 8;
  set_thread_count(argc > 2 ? std::atoi(argv[2]) : 1);
  for (int i = 3; i < argc; ++i) run(rows, std::atoll(argv[i]));
  if (argc <= 3) {
    for (const std::int64_t vocabulary : {151936, 8192, 220}) run(rows, vocabulary);
  }
}
