#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "native/objective/objective.h"

namespace hindsearch::testing {

// A golden batch as columns over packed tokens: prompt (at least one token), then response.
struct GoldenColumns {
  std::vector<std::int64_t> offsets;
  std::vector<std::uint8_t> response, distill;  // masks
  std::vector<float> advantage, advantage_nostd;
  std::vector<float> old_log_probs, reference, rollout, old_temperature, teacher;
  std::vector<float> student;  // log-probs of the current weights
  float padded_width = 0;      // of the response, T
  double off_policy_threshold = 0;

  std::size_t tokens() const { return response.size(); }
  // Sequences with a response token outside the mask only are empty.
  double non_empty_sequences() const;
};

// One of the golden losses in terms of our objective. Where a loss is GRPO with another advantage or
// with a detached weight on every token, that is the caller's business in this package too, and the
// columns hold it: L(A) is homogeneous in A, so w * L(A) = L(w * A) for w > 0.
struct GoldenLoss {
  Objective objective;
  float temperature = 1;
};

bool has_golden_loss(const std::string& id);
GoldenLoss golden_loss(const std::string& id, const GoldenColumns& columns);

// Why a golden loss has no counterpart here; every id is in exactly one of the two.
const std::map<std::string, std::string>& golden_losses_left_out();

}  // namespace hindsearch::testing
