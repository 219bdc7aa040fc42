#include "native/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hindsearch {

// Every step is rounded to float32, because that is how the frequencies of the published models
// were computed in training: a frequency that is more exact than theirs is a different frequency,
// and over thousands of positions the angles part.
std::vector<float> rope_frequencies(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_frequency_factor);
  const auto high = static_cast<float>(scaling.high_frequency_factor);
  const auto original = static_cast<float>(scaling.original_positions);

  std::vector<float> frequencies;
  for (std::int32_t i = 0; i < config.head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(config.head_dim);
    const auto power = static_cast<float>(std::pow(config.rope_theta, double{exponent}));
    float frequency = 1.0f / power;
    if (scaling.factor != 1) {
      const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
      if (wavelength > original / low) {
        frequency = frequency / factor;
      } else if (wavelength >= original / high) {
        const float smooth = (original / wavelength - low) / (high - low);
        frequency = (1 - smooth) * frequency / factor + smooth * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTable::RopeTable(const ModelConfig& config)
    : frequencies_(rope_frequencies(config)), max_positions_(config.max_positions) {}

void RopeTable::reserve(Backend& backend, std::int32_t positions) {
  if (positions <= positions_) return;
  // Doubling keeps the number of growths small; half a table more than needed is the price.
  const auto doubled = std::min<std::int64_t>(std::int64_t{2} * positions_, max_positions_);
  const auto rows = std::max<std::int64_t>({positions, doubled, std::min(1024, max_positions_)});
  const auto half = static_cast<std::int64_t>(frequencies_.size());

  std::vector<float> cosines(static_cast<std::size_t>(rows * half)), sines(cosines.size());
  for (std::int64_t p = 0; p < rows; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      // The product is rounded to float32; cos and sin of it are then exact to the last bit.
      const float angle = static_cast<float>(p) * frequencies_[static_cast<std::size_t>(i)];
      cosines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::cos(double{angle}));
      sines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::sin(double{angle}));
    }
  }
  auto new_cosines = backend.allocate(rows * half);
  auto new_sines = backend.allocate(rows * half);
  backend.upload(cosines.data(), new_cosines->data(), rows * half);
  backend.upload(sines.data(), new_sines->data(), rows * half);
  cosines_ = std::move(new_cosines);
  sines_ = std::move(new_sines);
  positions_ = static_cast<std::int32_t>(rows);
}

std::size_t RopeTable::bytes() const {
  return 2 * sizeof(float) * frequencies_.size() * static_cast<std::size_t>(positions_);
}

}  // namespace hindsearch
