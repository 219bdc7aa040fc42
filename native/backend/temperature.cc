#include "native/backend/temperature.h"

#include <cstdio>

#include "native/core/error.h"

namespace hindsearch {

void check_temperature(const std::string& where, float temperature, bool or_greedy) {
  if (or_greedy && temperature == 0) return;
  // Written so that NaN fails.
  if (temperature >= static_cast<float>(kMinTemperature) &&
      temperature <= static_cast<float>(kMaxTemperature))
    return;
  char found[80];
  std::snprintf(found, sizeof found, "%.8g, expected %s%g to %g", double{temperature},
                or_greedy ? "0 (greedy) or " : "", kMinTemperature, kMaxTemperature);
  throw Error(code::kInvalidArgument, where + ": temperature is " + found);
}

}  // namespace hindsearch
