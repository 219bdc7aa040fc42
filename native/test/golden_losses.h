#pragma once

#include <map>
#include <string>

#include "native/objective/objective.h"
#include "native/test/golden_columns.h"

namespace hindsearch::testing {

// One of the golden losses in terms of our objective. Where a loss is GRPO with another advantage
// or with a detached weight on every token, that is the caller's business in this package too, and
// the columns hold it: L(A) is homogeneous in A, so w * L(A) = L(w * A) for w > 0.
struct GoldenLoss {
  Objective objective;
  float temperature = 1;
};

bool has_golden_loss(const std::string& id);
GoldenLoss golden_loss(const std::string& id, const GoldenColumns& columns);

// Why a golden loss has no counterpart here; every id is in exactly one of the two.
const std::map<std::string, std::string>& golden_losses_left_out();

}  // namespace hindsearch::testing
