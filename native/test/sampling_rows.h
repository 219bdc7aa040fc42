// Rows of logits, and what may be asked of them, that are hard on a sampler.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "native/test/backends.h"

namespace hindsearch::testing {

// Small whole numbers and fractions of a test's own, by purpose and index.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  double fraction() { return uniform(seed_, next_++, 99); }
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(fraction() * static_cast<double>(bound));
  }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

inline constexpr int kShapes = 10;
inline Floats make_row(int shape, std::size_t vocabulary, std::uint64_t seed) {
  Dice dice(seed);
  Floats row = normal(vocabulary, seed, dice.one_of<float>({0.01f, 1, 3, 12}));
  const std::size_t favourite = dice.below(vocabulary);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  switch (shape) {
    case 0:
      break;
    case 1:  // heavy ties
      for (float& x : row) x = std::round(x);
      break;
    case 2:  // two values
      for (float& x : row) x = x > 0 ? 1.0f : -1.0f;
      break;
    case 3:  // flat
      std::fill(row.begin(), row.end(), -3.25f);
      break;
    case 4:  // one-hot
      std::fill(row.begin(), row.end(), dice.one_of<float>({-infinity, -200, -5}));
      row[favourite] = 4;
      break;
    case 5: {  // most are impossible
      const double possible = dice.one_of<double>({0.001, 0.1, 0.7});
      for (float& x : row) x = dice.fraction() < possible ? x : -infinity;
      row[favourite] = 0;
      break;
    }
    case 6:
      std::sort(row.begin(), row.end());
      break;
    case 7:
      std::sort(row.begin(), row.end(), std::greater<>());
      break;
    case 8:  // a few stand out
      for (int i = 0; i < 8; ++i) row[dice.below(vocabulary)] += 15;
      break;
    default: {  // a sample at even distances sees nothing but one kind
      const std::size_t samples = 512;
      const float other = dice.one_of<float>({-9, 9});
      for (std::size_t i = 0; i < samples && vocabulary > samples; ++i)
        row[(i * vocabulary + vocabulary / 2) / samples] += other;
    }
  }
  return row;
}

inline Sampling make_sampling(std::size_t vocabulary, std::uint64_t seed) {
  Dice dice(seed);
  const auto size = static_cast<std::int32_t>(vocabulary);
  Sampling sampling;
  sampling.temperature = dice.one_of<float>({1, 1, 1, 0.3f, 0.01f, 2.5f});
  sampling.top_k = dice.one_of<std::int32_t>(
      {0, 0, 0, 1, 2, 50, std::max(1, size / 2), size - 1, size, size + 5});
  sampling.top_p =
      dice.one_of<float>({1, 1, 0.999999f, 0.95f, 0.9f, 0.75f, 0.5f, 0.25f, 0.1f, 1e-6f, 0});
  sampling.min_p = dice.one_of<float>({0, 0, 0, 1e-6f, 0.05f, 0.5f, 1});
  return sampling;
}

}  // namespace hindsearch::testing
