// The filters of Sampling against the plainest implementation, which sorts the row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "native/backend/cpu/filters.h"
#include "native/test/sampling_rows.h"

namespace hindsearch::testing {
namespace {

using Doubles = std::vector<double>;

struct Reference {
  std::vector<bool> kept;
  Doubles masses;  // relative to the largest, in the order of the ids
  double total;    // of the kept
  Doubles below;   // of top-p: mass up to and with this one, from the smallest; -1: gone before
  double bound;
};

// As struct Sampling says it, on masses given in double.
Reference filter(const Floats& logits, const Doubles& masses, const Sampling& sampling) {
  const std::size_t n = logits.size();
  Reference out{std::vector<bool>(n, true), masses, 0, Doubles(n, -1), -1};
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int32_t>(n)) {
    Floats sorted = logits;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (std::size_t i = 0; i < n; ++i)
      out.kept[i] = logits[i] >= sorted[static_cast<std::size_t>(sampling.top_k - 1)];
  }
  for (std::size_t i = 0; i < n; ++i) out.kept[i] = out.kept[i] && masses[i] > 0;
  if (sampling.top_p < 1) {
    std::vector<std::size_t> order;
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (!out.kept[i]) continue;
      order.push_back(i);
      total += masses[i];
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return masses[a] != masses[b] ? masses[a] < masses[b] : a > b;
    });
    out.bound = (1 - double{sampling.top_p}) * total;
    double sum = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      out.below[order[i]] = sum += masses[order[i]];
      out.kept[order[i]] = sum > out.bound || i + 1 == order.size();
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    out.kept[i] = out.kept[i] && masses[i] >= double{sampling.min_p};
    if (out.kept[i]) out.total += masses[i];
  }
  return out;
}

// The exponentials a backend works with.
Doubles float_masses(const cpu::RowKernels& kernels, const Floats& logits,
                     const Sampling& sampling) {
  const float top = *std::max_element(logits.begin(), logits.end());
  Floats masses(logits.size());
  for (std::size_t i = 0; i < masses.size(); ++i) masses[i] = logits[i] - top;
  kernels.exponentials(masses.data(), static_cast<std::int64_t>(masses.size()),
                       1 / sampling.temperature, 0, masses.data());
  return {masses.begin(), masses.end()};
}
Doubles double_masses(const Floats& logits, const Sampling& sampling) {
  const double top = *std::max_element(logits.begin(), logits.end());
  Doubles masses(logits.size());
  for (std::size_t i = 0; i < masses.size(); ++i) {
    masses[i] = std::exp((double{logits[i]} - top) / double{sampling.temperature});
    // Denormal exponentials are cut off.
    if (masses[i] < double{std::numeric_limits<float>::min()}) masses[i] = 0;
  }
  return masses;
}

Floats filter(const cpu::RowKernels& kernels, const Floats& logits, const Sampling& sampling) {
  return cpu::filter_probabilities(kernels, logits.data(), static_cast<std::int64_t>(logits.size()),
                                   sampling);
}

void describe(std::size_t vocabulary, int shape, const Sampling& sampling,
              const std::exception& error) {
  throw Failure("V " + std::to_string(vocabulary) + ", shape " + std::to_string(shape) +
                ", temperature " + std::to_string(sampling.temperature) + ", top_k " +
                std::to_string(sampling.top_k) + ", top_p " + std::to_string(sampling.top_p) +
                ", min_p " + std::to_string(sampling.min_p) + ": " + error.what());
}

// Calls body(row, sampling) for rows of every shape and size, with a number that differs each time.
template <class Body>
void for_rows(Body&& body) {
  constexpr struct {
    std::size_t vocabulary;
    std::uint64_t times;
  } kSizes[] = {{1, 4},     {2, 8},     {3, 8},     {15, 10},    {16, 10},
                {17, 20},   {220, 40},  {768, 20},  {769, 20},   {2047, 10},
                {2048, 10}, {2049, 40}, {5000, 40}, {20011, 10}, {151936, 2}};
  std::uint64_t seed = 1000;
  for (const auto& size : kSizes) {
    for (std::uint64_t i = 0; i < size.times; ++i) {
      for (int shape = 0; shape < kShapes; ++shape) {
        ++seed;
        const Floats row = make_row(shape, size.vocabulary, seed);
        const Sampling sampling = make_sampling(size.vocabulary, seed);
        try {
          body(row, sampling, seed);
        } catch (const std::exception& error) {
          describe(size.vocabulary, shape, sampling, error);
        }
      }
    }
  }
}

// The kept set is exactly that of the sort, whatever the row; so are the probabilities, to
// rounding.
TEST(filters_match_a_sort) {
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    const auto backend = cpu::make_cpu_backend(ComputeType::f32, *kernels);
    std::size_t rows = 0;
    for_rows([&](const Floats& row, const Sampling& sampling, std::uint64_t seed) {
      ++rows;
      const Reference expected = filter(row, float_masses(*kernels->rows, row, sampling), sampling);
      const Floats actual = filter(*kernels->rows, row, sampling);
      for (std::size_t i = 0; i < row.size(); ++i) {
        const double p = expected.kept[i] ? expected.masses[i] / expected.total : 0;
        CHECK_EQ(actual[i] > 0, expected.kept[i]);
        CHECK_NEAR(actual[i], p, 1e-7 * p + 2e-45);  // the smallest float
      }

      // The token is where the cumulative sum passes the uniform number, and its log-prob that of
      // the filtered distribution.
      Dice dice(seed + 1'000'000);
      Floats logits = row;
      const double u = dice.one_of<double>({0, dice.fraction(), dice.fraction(), 1 - 0x1p-53});
      Token token = -1;
      float log_prob = 0;
      backend->sample(logits.data(), 1, static_cast<std::int64_t>(row.size()), &sampling, &u,
                      &token, &log_prob);
      const auto drawn = static_cast<std::size_t>(token);
      CHECK(drawn < row.size());
      const bool filtered = cpu::filters(sampling, static_cast<std::int64_t>(row.size()));
      // Untruncated, the number 0 is below any probability, even one that is no float.
      CHECK(expected.kept[drawn] || !filtered);
      double before = 0;
      for (std::size_t i = 0; i < drawn; ++i) before += expected.kept[i] ? expected.masses[i] : 0;
      constexpr double kRounding = 1e-6;  // the untruncated draw sums in f32
      CHECK(before / expected.total <= u + kRounding);
      CHECK((before + expected.masses[drawn]) / expected.total >= u - kRounding);
      const double top = *std::max_element(row.begin(), row.end());
      const double log_expected =
          (double{row[drawn]} - top) / double{sampling.temperature} - std::log(expected.total);
      // Untruncated, as in training, a logit is divided by the temperature before the difference.
      const double divided = filtered ? 0 : std::abs(top) / double{sampling.temperature};
      CHECK_NEAR(log_prob, log_expected, 2e-6 * (1 + std::abs(log_expected)) + 0x1p-22 * divided);
    });
    CHECK(rows > 2000);
  }
}

// With exponentials in float64 the kept set may differ where rounding decides: at a mass that is
// the bound's, or one that the cut's; and it does in few rows.
TEST(filters_match_a_sort_in_float64) {
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    std::size_t rows = 0, differing = 0;
    for_rows([&](const Floats& row, const Sampling& sampling, std::uint64_t) {
      const Reference expected = filter(row, double_masses(row, sampling), sampling);
      const Floats actual = filter(*kernels->rows, row, sampling);
      double cut = 0;  // the largest mass that top-p drops
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (expected.below[i] >= 0 && expected.below[i] <= expected.bound)
          cut = std::max(cut, expected.masses[i]);
      }
      bool same = true;
      double difference = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const double mass = expected.masses[i];
        const double p = expected.kept[i] ? mass / expected.total : 0;
        difference += std::abs(actual[i] - p);
        // The smallest normal float is where exponentials are cut off.
        if ((actual[i] > 0) == expected.kept[i] || mass < 1.2e-38) continue;
        same = false;
        constexpr double kRounding = 1e-5;  // of e^-z, z up to 87, and of sums
        const bool at_bound = expected.bound >= 0 && std::abs(expected.below[i] - expected.bound) <=
                                                         kRounding * expected.bound + mass;
        const bool at_cut = std::abs(mass - cut) <= kRounding * cut;
        const bool at_min = std::abs(mass - double{sampling.min_p}) <= kRounding * mass;
        CHECK(at_bound || at_cut || at_min);
      }
      ++rows;
      differing += !same;
      if (same) CHECK_NEAR(difference, 0, 1e-5);
    });
    if (50 * differing >= rows)
      fail(__FILE__, __LINE__, kernels->name, ": ", differing, " of ", rows, " rows differ");
  }
}

TEST(a_row_is_drawn_alike_in_any_batch_and_on_any_threads) {
  for_instruction_sets([](Backend& backend) {
    constexpr std::size_t kRows = 40, kVocabulary = 9001;
    Floats logits;
    std::vector<Sampling> sampling;
    Doubles uniforms;
    for (std::size_t r = 0; r < kRows; ++r) {
      const Floats row = make_row(static_cast<int>(r) % kShapes, kVocabulary, r + 5);
      logits.insert(logits.end(), row.begin(), row.end());
      sampling.push_back(make_sampling(kVocabulary, r + 7));
      uniforms.push_back(uniform(11, r, 0));
    }
    const auto run = [&](std::size_t first, std::size_t rows) {
      Floats copy(logits.begin() + static_cast<std::ptrdiff_t>(first * kVocabulary),
                  logits.begin() + static_cast<std::ptrdiff_t>((first + rows) * kVocabulary));
      std::pair<std::vector<Token>, Floats> out{std::vector<Token>(rows), Floats(rows)};
      backend.sample(copy.data(), static_cast<std::int64_t>(rows), kVocabulary, &sampling[first],
                     &uniforms[first], out.first.data(), out.second.data());
      return out;
    };
    for (const int threads : {1, 2, 3}) {
      const Threads restore(threads);
      const auto all = run(0, kRows);
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto alone = run(r, 1);
        CHECK_EQ(all.first[r], alone.first[0]);
        CHECK(same_bits(&all.second[r], alone.second.data(), 1));
      }
      static std::pair<std::vector<Token>, Floats> before;
      if (threads > 1) {
        CHECK(all.first == before.first);
        CHECK(same_bits(all.second, before.second));
      }
      before = all;
    }
  });
}

}  // namespace
}  // namespace hindsearch::testing
