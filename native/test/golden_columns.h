#pragma once

#include <cstdint>
#include <functional>
#include <vector>

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

using Mask = std::vector<std::uint8_t>;
using Column = std::vector<float>;

double count(const Mask& mask);
// Column of f(t).
Column fill(const GoldenColumns& c, const std::function<double(std::size_t)>& f);

// Weights of cross entropies.
Column mask_column(const GoldenColumns& c);
Column sequence_mean_weights(const GoldenColumns& c);
Column all_but_first(const GoldenColumns& c);
Column importance_weighted_opd(const GoldenColumns& c);

// Advantages: weighted by exp(old - rollout), cut off at 2 or, with mask_above, at 0 from there.
Column truncated_importance(const GoldenColumns& c);
Column batch_normalised_importance(const GoldenColumns& c);
Column sequence_importance(const GoldenColumns& c, bool mask_above);
Column icepop(const GoldenColumns& c);
Column off_policy_masked(const GoldenColumns& c);
// A * scale + coefficient * clamp(teacher - old, +-clamp) on distilled tokens.
Column plus_teacher_gap(const GoldenColumns& c, double scale, double coefficient, double clamp);
// clamp(teacher - student, +-clamp) on distilled tokens.
Column current_teacher_gap(const GoldenColumns& c, double clamp);

}  // namespace hindsearch::testing
