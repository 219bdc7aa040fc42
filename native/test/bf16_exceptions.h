#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "native/test/json.h"
#include "native/test/on_gpu.h"

namespace hindsearch::testing {

// The cases whose error in bf16 exceeds the limit of the golden README, on every device and on CUDA
// further; the TypeScript tests read the same table.
inline const Json& bf16_exceptions(const char* list) {
  static const Json table = Json::load(
      (std::filesystem::path(__FILE__).parent_path() / "../../test/golden/bf16-exceptions.json")
          .string());
  return table[list];
}

// The error that a figure of a golden case may have in bf16: the golden README's `limit`, or for an
// exception what was measured and a quarter more, as another order of additions may round another
// number up.
inline double bf16_allowance(const std::string& model, const std::string& id,
                             const std::string& figure, double limit) {
  for (const char* list : {"cuda", "exceptions"}) {
    if (std::string(list) == "cuda" && !on_gpu()) continue;
    for (const Json& each : bf16_exceptions(list).items()) {
      if (each["model"].string() != model || each["case"].string() != id ||
          each["figure"].string() != figure) {
        continue;
      }
      const double error = each["error"].number();
      if (error <= limit) throw std::runtime_error(figure + " of " + id + " needs no exception");
      return 1.25 * error;
    }
  }
  return limit;
}

}  // namespace hindsearch::testing
