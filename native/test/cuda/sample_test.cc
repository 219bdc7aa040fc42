// The sampler on the device against the CPU's: the same uniform number draws the same token, but
// where it lies within rounding of the border between two.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "native/backend/cpu/filters.h"
#include "native/backend/cuda/ops.h"
#include "native/backend/sampling.h"
#include "native/backend/temperature.h"
#include "native/test/cuda/device_case.h"
#include "native/test/sampling_rows.h"

namespace hindsearch::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kAlmostOne = 1 - 0x1p-53;

// Rows of one vocabulary, each with its own settings.
struct Batch {
  std::size_t vocabulary;
  Floats logits = {};
  std::vector<Sampling> sampling = {};
  std::vector<double> uniforms = {};

  std::size_t rows() const { return uniforms.size(); }
  void add(const Floats& row, const Sampling& settings, double uniform) {
    logits.insert(logits.end(), row.begin(), row.end());
    sampling.push_back(settings);
    uniforms.push_back(uniform);
  }
  const float* row(std::size_t r) const { return &logits[r * vocabulary]; }
  Batch only(std::size_t r) const {
    Batch one{vocabulary};
    one.add({row(r), row(r) + vocabulary}, sampling[r], uniforms[r]);
    return one;
  }
  std::string describe(std::size_t r) const {
    return "V " + std::to_string(vocabulary) + ", row " + std::to_string(r) + ", temperature " +
           std::to_string(sampling[r].temperature) + ", top_k " +
           std::to_string(sampling[r].top_k) + ", top_p " + std::to_string(sampling[r].top_p) +
           ", min_p " + std::to_string(sampling[r].min_p) + ", uniform " +
           std::to_string(uniforms[r]);
  }
};

struct Draws {
  std::vector<Token> tokens;
  Floats log_probs;
};

Draws draw(const DeviceCase& device, const Batch& batch) {
  const auto logits = device.upload(batch.logits);
  Draws out{std::vector<Token>(batch.rows(), -1), Floats(batch.rows(), 9)};
  cuda::sample(device.context(), logits.data(), static_cast<std::int64_t>(batch.rows()),
               static_cast<std::int64_t>(batch.vocabulary), batch.sampling.data(),
               batch.uniforms.data(), out.tokens.data(), out.log_probs.data());
  return out;
}

Draws draw(Backend& cpu, const Batch& batch) {
  Floats logits = batch.logits;
  Draws out{std::vector<Token>(batch.rows(), -1), Floats(batch.rows(), 9)};
  cpu.sample(logits.data(), static_cast<std::int64_t>(batch.rows()),
             static_cast<std::int64_t>(batch.vocabulary), batch.sampling.data(),
             batch.uniforms.data(), out.tokens.data(), out.log_probs.data());
  return out;
}

// Whether the row's uniform number is within rounding of where one token ends and the other begins.
bool at_border(const Batch& batch, std::size_t r, Token a, Token b) {
  const auto p = filter_probabilities(batch.row(r), static_cast<std::int64_t>(batch.vocabulary),
                                      batch.sampling[r]);
  const auto first = static_cast<std::size_t>(std::min(a, b)),
             last = static_cast<std::size_t>(std::max(a, b));
  double lower = 0;
  for (std::size_t i = 0; i <= first; ++i) lower += double{p[i]};
  double upper = lower;
  for (std::size_t i = first + 1; i < last; ++i) upper += double{p[i]};
  constexpr double kRounding = 1e-6;  // the CPU sums 768 logits at a time in f32
  return p[first] > 0 && p[last] > 0 && batch.uniforms[r] >= lower - kRounding &&
         batch.uniforms[r] <= upper + kRounding && upper - lower <= 2 * kRounding;
}

// Draws alike but at borders, of which there must be few.
class Comparison {
 public:
  void add(const Batch& batch, const Draws& actual, const Draws& expected) {
    for (std::size_t r = 0; r < batch.rows(); ++r) {
      ++draws_;
      if (actual.tokens[r] != expected.tokens[r]) {
        ++differing_;
        if (!at_border(batch, r, actual.tokens[r], expected.tokens[r]))
          fail(__FILE__, __LINE__, batch.describe(r), ": token ", actual.tokens[r], ", expected ",
               expected.tokens[r]);
        continue;
      }
      if (std::isnan(expected.log_probs[r])) {
        CHECK(std::isnan(actual.log_probs[r]));
        continue;
      }
      // Of an untruncated row the CPU divides a logit by the temperature before it subtracts.
      const float* row = batch.row(r);
      const double divided =
          batch.sampling[r].temperature == 0
              ? 0
              : double{std::abs(*std::max_element(row, row + batch.vocabulary))} /
                    double{batch.sampling[r].temperature};
      const double tolerance = 2e-6 * (1 + std::abs(expected.log_probs[r])) + 0x1p-22 * divided;
      if (!(std::abs(actual.log_probs[r] - expected.log_probs[r]) <= tolerance))
        fail(__FILE__, __LINE__, batch.describe(r), ": log-prob ", actual.log_probs[r],
             ", expected ", expected.log_probs[r]);
    }
  }
  void finish(std::size_t least) const {
    CHECK(draws_ >= least);
    if (1000 * differing_ > draws_)
      fail(__FILE__, __LINE__, differing_, " of ", draws_, " draws differ");
  }

 private:
  std::size_t draws_ = 0, differing_ = 0;
};

TEST(draws_of_the_whole_vocabulary_are_those_of_the_cpu) {
  const DeviceCase device(ComputeType::f32);
  const auto cpu = cpu::make_cpu_backend(ComputeType::f32, *cpu::supported_kernels().front());
  Comparison comparison;
  constexpr struct {
    std::size_t vocabulary, draws;
  } kSizes[] = {{1, 5}, {2, 100}, {31, 100}, {257, 800}, {1024, 800}, {1543, 1200}, {20000, 60}};
  std::uint64_t seed = 20;
  for (const auto& size : kSizes) {
    Batch batch{size.vocabulary};
    for (std::size_t i = 0; i < size.draws; ++i) {
      ++seed;
      Dice dice(seed);
      Sampling sampling;
      sampling.temperature = dice.one_of<float>({0, 1, 1, 0.6f, 0.05f, 2.5f});
      // Off, though they are set.
      sampling.top_k = dice.one_of<std::int32_t>({0, static_cast<std::int32_t>(size.vocabulary)});
      batch.add(make_row(static_cast<int>(dice.below(kShapes)), size.vocabulary, seed), sampling,
                dice.fraction());
    }
    comparison.add(batch, draw(device, batch), draw(*cpu, batch));
  }
  comparison.finish(3000);
}

TEST(draws_behind_filters_are_those_of_the_cpu) {
  const DeviceCase device(ComputeType::f32);
  const auto cpu = cpu::make_cpu_backend(ComputeType::f32, *cpu::supported_kernels().front());
  Comparison comparison;
  constexpr struct {
    std::size_t vocabulary, draws;
  } kSizes[] = {{1, 4},    {2, 20},    {3, 20},    {17, 30},   {257, 50},
                {768, 20}, {1543, 40}, {4096, 10}, {4097, 10}, {20000, 20}};
  std::uint64_t seed = 5000;
  for (const auto& size : kSizes) {
    Batch batch{size.vocabulary};
    for (std::size_t i = 0; i < size.draws; ++i) {
      ++seed;
      Dice dice(seed);
      const Floats row = make_row(static_cast<int>(i) % kShapes, size.vocabulary, seed);
      const Sampling sampling = make_sampling(size.vocabulary, seed);
      // Of the whole vocabulary the number 0 draws what may be too small for a float.
      const bool filtered = cpu::filters(sampling, static_cast<std::int64_t>(size.vocabulary));
      const double any = dice.fraction();
      batch.add(row, sampling, filtered ? dice.one_of<double>({0, any, any, kAlmostOne}) : any);
    }
    comparison.add(batch, draw(device, batch), draw(*cpu, batch));
  }
  comparison.finish(200);
}

// A vocabulary as large as that of a real model, where what can be kept is a small part of it, and
// where it is all of it.
TEST(a_large_vocabulary_is_cut_alike) {
  const DeviceCase device(ComputeType::f32);
  const auto cpu = cpu::make_cpu_backend(ComputeType::f32, *cpu::supported_kernels().front());
  Batch batch{151936};
  const Floats peaked = normal(batch.vocabulary, 3, 3), flat = normal(batch.vocabulary, 4, 0.1f);
  for (const Sampling& sampling :
       {Sampling{.temperature = 0.7f, .top_k = 20, .top_p = 0.8f}, Sampling{.top_p = 0.95f},
        Sampling{.top_k = 1000}, Sampling{.min_p = 0.05f}, Sampling{}}) {
    batch.add(peaked, sampling, uniform(9, batch.rows(), 0));
    batch.add(flat, sampling, uniform(9, batch.rows(), 0));
  }
  Comparison comparison;
  comparison.add(batch, draw(device, batch), draw(*cpu, batch));
}

// Of equals those with the lower ids stay: 20,000 of which a quarter goes.
TEST(top_p_drops_the_higher_ids_of_equals) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{20000};
  const Sampling sampling{.top_p = 0.75f};
  for (const double uniform : {0.0, 0.5, kAlmostOne})
    batch.add(Floats(batch.vocabulary, -3.25f), sampling, uniform);
  const Draws draws = draw(device, batch);
  CHECK((draws.tokens == std::vector<Token>{0, 7500, 14999}));
  for (const float log_prob : draws.log_probs) CHECK_NEAR(log_prob, -std::log(15000.0), 1e-6);
}

TEST(top_k_keeps_all_that_equal_the_last) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{3000};
  Floats row(batch.vocabulary, -1);
  row[2000] = 2;
  row[10] = row[900] = row[2999] = 1;
  for (const double uniform : {0.0, 0.2, 0.5, kAlmostOne})
    batch.add(row, {.temperature = 1e4f, .top_k = 2}, uniform);
  batch.add(row, {.top_k = 1}, kAlmostOne);
  batch.add(Floats(batch.vocabulary, 7), {.top_k = 1}, 0.5);  // all of them
  const Draws draws = draw(device, batch);
  CHECK((draws.tokens == std::vector<Token>{10, 10, 2000, 2999, 2000, 1500}));
}

TEST(zeros_of_either_sign_are_equal) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{1000};
  Floats row(batch.vocabulary, -1);
  std::fill(row.begin(), row.begin() + 256, -0.0f);
  std::fill(row.begin() + 256, row.begin() + 512, 0.0f);
  for (const double uniform : {0.0, kAlmostOne}) {
    batch.add(row, {.top_k = 3, .top_p = 0.999999f}, uniform);
    batch.add(row, {.temperature = 0}, uniform);
  }
  const Draws draws = draw(device, batch);
  CHECK((draws.tokens == std::vector<Token>{0, 0, 511, 0}));
  CHECK_NEAR(draws.log_probs[0], -std::log(512.0), 1e-6);
  CHECK_NEAR(draws.log_probs[1], -std::log(512 + 488 * std::exp(-1.0)), 1e-6);
}

TEST(the_ends_of_the_uniform_range_are_safe) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{2600};
  Floats row = normal(batch.vocabulary, 7, 2);
  // The first and last tokens, and a whole segment, cannot be drawn.
  std::fill(row.begin(), row.begin() + 1100, -kInfinity);
  row.back() = -kInfinity;
  for (const Sampling& sampling : {Sampling{}, Sampling{.top_p = 0.9f}, Sampling{.top_k = 2000}}) {
    for (const double uniform : {0.0, kAlmostOne, 0.3}) batch.add(row, sampling, uniform);
  }
  const Draws draws = draw(device, batch);
  for (const Token token : draws.tokens) CHECK(row[static_cast<std::size_t>(token)] > -kInfinity);
  for (const float log_prob : draws.log_probs) CHECK(std::isfinite(log_prob));
}

// A sum of many in f32 is off by more than the last tokens weigh; they must not get the difference.
TEST(rounding_does_not_draw_what_is_next_to_impossible) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{700};
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Floats row = normal(batch.vocabulary, seed, 2);
    for (std::size_t i = 600; i < row.size(); ++i) row[i] -= 60;
    for (const Sampling& sampling :
         {Sampling{}, Sampling{.top_p = 1 - 0x1p-24f}, Sampling{.min_p = 1e-30f}}) {
      for (const double uniform : {kAlmostOne, 1 - 1e-9}) batch.add(row, sampling, uniform);
    }
  }
  for (const Token token : draw(device, batch).tokens) CHECK(token < 600);
}

// The lanes of a warp add up a cumulative sum each in an order of its own; where those differ in a
// last bit lies nothing that can be drawn. Masses differ by more bits than a double has, and the
// vocabularies leave some lanes and warps without a logit.
TEST(rounding_does_not_draw_what_is_not_there) {
  const DeviceCase device(ComputeType::f32);
  for (const std::size_t vocabulary : {50, 700, 2600}) {
    Batch batch{vocabulary};
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      Floats row = normal(vocabulary, seed, 8);
      for (std::size_t i = seed % 3; i < vocabulary; i += 3) row[i] = -kInfinity;
      for (const Sampling& sampling : {Sampling{}, Sampling{.min_p = 1e-30f}}) {
        for (const double below : {0x1p-53, 0x1p-52, 0x1p-51}) batch.add(row, sampling, 1 - below);
      }
    }
    const Draws draws = draw(device, batch);
    for (std::size_t r = 0; r < batch.rows(); ++r) {
      const auto token = static_cast<std::size_t>(draws.tokens[r]);
      CHECK(token < vocabulary && batch.row(r)[token] > -kInfinity);
    }
  }
}

TEST(every_temperature_has_a_distribution) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{1500};
  Floats row = normal(batch.vocabulary, 7, 2);
  row[1234] = 20;
  for (const double temperature : {kMinTemperature, kMaxTemperature}) {
    for (const Sampling& filters : {Sampling{}, Sampling{.top_k = 5}, Sampling{.top_p = 0.5f},
                                    Sampling{.min_p = 0.1f}, Sampling{.top_k = 5, .top_p = 0.5f}}) {
      Sampling sampling = filters;
      sampling.temperature = static_cast<float>(temperature);
      batch.add(row, sampling, 0.5);
    }
  }
  const Draws draws = draw(device, batch);
  for (std::size_t r = 0; r < batch.rows(); ++r) {
    if (batch.sampling[r].temperature < 1) CHECK_EQ(draws.tokens[r], 1234);
    CHECK(std::isfinite(draws.log_probs[r]));
  }
}

TEST(impossible_rows_give_nan_and_leave_the_others) {
  const DeviceCase device(ComputeType::f32);
  const auto cpu = cpu::make_cpu_backend(ComputeType::f32, *cpu::supported_kernels().front());
  Batch batch{1500};
  const Floats good = normal(batch.vocabulary, 7, 2);
  std::size_t impossible = 0;
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 0}, Sampling{.top_k = 5},
                                   Sampling{.top_p = 0.5f}, Sampling{.min_p = 0.1f}}) {
    for (const float bad : {kNaN, kInfinity}) {
      for (const std::size_t at : {0, 730, 1499}) {
        Floats row = good;
        row[at] = bad;
        batch.add(row, sampling, 0.5);
        batch.add(good, sampling, 0.5);
        ++impossible;
      }
    }
    batch.add(Floats(batch.vocabulary, -kInfinity), sampling, 0.5);
    batch.add(Floats(batch.vocabulary, kNaN), sampling, 0.5);
    impossible += 2;
  }
  const Draws draws = draw(device, batch);
  Comparison().add(batch, draws, draw(*cpu, batch));
  std::size_t seen = 0;
  for (std::size_t r = 0; r < batch.rows(); ++r) {
    if (!std::isnan(draws.log_probs[r])) continue;
    CHECK_EQ(draws.tokens[r], 0);
    ++seen;
  }
  CHECK_EQ(seen, impossible);
}

TEST(greedy_takes_the_first_of_the_largest) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{2700};
  Floats row = normal(batch.vocabulary, 7);
  row[1234] = row[1777] = row[2699] = 50;
  batch.add(row, {.temperature = 0, .top_k = 5, .top_p = 0.1f}, 0.999);
  row[2] = 60;
  row[1234] = row[1] = 0;
  batch.add(row, {.temperature = 0}, 0.999);
  const Draws draws = draw(device, batch);
  CHECK((draws.tokens == std::vector<Token>{1234, 2}));
  CHECK_NEAR(draws.log_probs[0], -std::log(3.0), 1e-6);
}

TEST(a_row_is_drawn_alike_in_any_batch) {
  const DeviceCase device(ComputeType::f32);
  Batch batch{4801};
  for (std::uint64_t r = 0; r < 16; ++r) {
    const Sampling sampling = r % 4 ? make_sampling(batch.vocabulary, r + 7) : Sampling{};
    batch.add(make_row(static_cast<int>(r) % kShapes, batch.vocabulary, r + 5), sampling,
              uniform(11, r, 0));
  }
  const Draws all = draw(device, batch);
  for (std::size_t r = 0; r < batch.rows(); ++r) {
    const Draws alone = draw(device, batch.only(r));
    CHECK_EQ(all.tokens[r], alone.tokens[0]);
    CHECK(same_bits(&all.log_probs[r], alone.log_probs.data(), 1));
  }
}

}  // namespace
}  // namespace hindsearch::testing
