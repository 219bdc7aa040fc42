// The temperatures that a distribution may have.
#pragma once

#include <string>

namespace hindsearch {

// Ops multiply logits by the inverse of the temperature in f32. Next to zero the inverse is
// infinite, and above that its product with a logit: such a row would have no distribution. Within
// these bounds the logits of a sound model are far from it, and what rounding does to their
// quotients stays within some hundredths of a nat.
inline constexpr double kMinTemperature = 1e-4;
inline constexpr double kMaxTemperature = 1e4;

// `or_greedy`: 0 is accepted too. Throws Error(INVALID_ARGUMENT).
void check_temperature(const std::string& where, float temperature, bool or_greedy);

}  // namespace hindsearch
