#include "native/objective/objective.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "native/core/error.h"

namespace hindsearch {
namespace {

// exp(20) = 5e8: far outside any clip range, and its product with an advantage is still exact
// enough to be summed.
constexpr double kMaxExponent = 20;

// Tokens and sequences that a mask selects.
struct MaskCount {
  std::vector<double> per_sequence;
  double tokens = 0;
  double sequences = 0;
};

MaskCount count(const std::vector<std::uint8_t>& mask, std::span<const std::int64_t> offsets) {
  MaskCount result;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const auto n =
        static_cast<double>(std::count_if(mask.begin() + offsets[b], mask.begin() + offsets[b + 1],
                                          [](std::uint8_t m) { return m != 0; }));
    result.per_sequence.push_back(n);
    result.tokens += n;
    result.sequences += n > 0 ? 1 : 0;
  }
  return result;
}

double given_or(double total, double counted) { return total > 0 ? total : counted; }

// weight[t] = 1 / divisor(tokens of its sequence) inside the mask, 0 outside.
template <class Divisor>
std::vector<double> spread(const std::vector<std::uint8_t>& mask,
                           std::span<const std::int64_t> offsets, const MaskCount& counted,
                           Divisor divisor) {
  std::vector<double> weights(mask.size());
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    if (counted.per_sequence[b] == 0) continue;
    const double weight = 1 / divisor(counted.per_sequence[b]);
    for (auto t = static_cast<std::size_t>(offsets[b]);
         t < static_cast<std::size_t>(offsets[b + 1]); ++t) {
      if (mask[t]) weights[t] = weight;
    }
  }
  return weights;
}

std::vector<double> policy_weights(const Objective& o, std::span<const std::int64_t> offsets) {
  const MaskCount counted = count(o.policy_mask, offsets);
  const double tokens = given_or(o.total_policy_tokens, counted.tokens);
  const double sequences = given_or(o.total_policy_sequences, counted.sequences);
  const double all = given_or(o.total_sequences, static_cast<double>(offsets.size()) - 1);
  return spread(o.policy_mask, offsets, counted, [&](double own_tokens) {
    switch (o.policy.aggregation) {
      case Aggregation::token_mean:
        return tokens;
      case Aggregation::sequence_mean_token_mean:
        return own_tokens * sequences;
      case Aggregation::sequence_sum:
        return sequences;
      case Aggregation::fixed_length:
        return all * o.policy.fixed_length;
    }
    throw Error(code::kInvalidArgument, "objective: unknown policy.aggregation");
  });
}

std::vector<double> distill_weights(const Objective& o, std::span<const std::int64_t> offsets) {
  const MaskCount counted = count(o.distill_mask, offsets);
  const double tokens = given_or(o.total_distill_tokens, counted.tokens);
  const double sequences = given_or(o.total_distill_sequences, counted.sequences);
  // A distilled token is a policy token, so this is not 0 where it divides.
  const double policy_tokens =
      o.distill.normalizer == DistillNormalizer::policy_tokens
          ? given_or(o.total_policy_tokens, count(o.policy_mask, offsets).tokens)
          : 0;
  return spread(o.distill_mask, offsets, counted, [&](double own_tokens) {
    switch (o.distill.normalizer) {
      case DistillNormalizer::distill_tokens:
        return tokens;
      case DistillNormalizer::policy_tokens:
        return policy_tokens;
      case DistillNormalizer::sequences:
        return own_tokens * sequences;
      case DistillNormalizer::fixed:
        return static_cast<double>(o.distill.fixed);
    }
    throw Error(code::kInvalidArgument, "objective: unknown distill.normalizer");
  });
}

std::vector<double> cross_entropy_weights(const Objective& o) {
  double total = o.total_weight;
  if (total == 0) {
    for (const float w : o.weights) total += w;
  }
  std::vector<double> weights(o.weights.begin(), o.weights.end());
  for (double& w : weights) {
    if (w == 0) continue;
    if (total <= 0) {
      throw Error(code::kInvalidArgument,
                  "objective: weights add up to " + std::to_string(total) +
                      ", expected more than 0; give total_weight to divide by something else");
    }
    w /= total;
  }
  return weights;
}

// Whether the term with these per-token weights looks at token i; they are empty where it is off.
bool looks(const std::vector<double>& weights, std::size_t i) {
  return !weights.empty() && weights[i] != 0;
}

}  // namespace

ObjectiveSum::ObjectiveSum(const Objective& objective, std::span<const std::int64_t> offsets)
    : objective_(objective) {
  validate(objective, offsets);
  if (objective.policy.weight != 0 || objective.kl.weight != 0) {
    policy_weights_ = policy_weights(objective, offsets);
  }
  if (objective.distill.weight != 0) distill_weights_ = distill_weights(objective, offsets);
  if (objective.cross_entropy.weight != 0)
    cross_entropy_weights_ = cross_entropy_weights(objective);
  sum_.ratio_mean = 0;
}

bool ObjectiveSum::scored(std::int64_t t) const {
  const auto i = static_cast<std::size_t>(t);
  return looks(policy_weights_, i) || looks(distill_weights_, i) ||
         looks(cross_entropy_weights_, i);
}

bool ObjectiveSum::has_gradient(std::int64_t t) const {
  const auto i = static_cast<std::size_t>(t);
  const bool policy =
      objective_.policy.weight != 0 && looks(policy_weights_, i) && objective_.advantages[i] != 0;
  const bool kl = objective_.kl.weight != 0 && looks(policy_weights_, i);
  return policy || kl || looks(distill_weights_, i) || looks(cross_entropy_weights_, i);
}

double ObjectiveSum::add(std::int64_t t, float log_prob) {
  const auto i = static_cast<std::size_t>(t);
  double gradient = 0;
  if (looks(policy_weights_, i)) {
    sum_.policy_tokens += 1;
    if (objective_.policy.weight != 0)
      gradient += objective_.policy.weight * add_policy(t, log_prob);
    if (objective_.kl.weight != 0) gradient += objective_.kl.weight * add_kl(t, log_prob);
  }
  if (looks(distill_weights_, i)) {
    sum_.distill_tokens += 1;
    gradient += objective_.distill.weight * add_distill(t, log_prob);
  }
  if (looks(cross_entropy_weights_, i)) {
    sum_.cross_entropy -= cross_entropy_weights_[i] * log_prob;
    gradient -= objective_.cross_entropy.weight * cross_entropy_weights_[i];
  }
  return gradient;
}

double ObjectiveSum::add_policy(std::int64_t t, double log_prob) {
  const auto i = static_cast<std::size_t>(t);
  const PolicyTerm& term = objective_.policy;
  const double advantage = objective_.advantages[i];
  const double log_ratio = log_prob - objective_.old_log_probs[i];
  const double ratio = std::exp(std::clamp(log_ratio, -kMaxExponent, kMaxExponent));
  const bool clamped = std::abs(log_ratio) > kMaxExponent;
  const bool below = advantage < 0 && ratio < 1 - static_cast<double>(term.clip_low);
  const bool above = advantage > 0 && ratio > 1 + static_cast<double>(term.clip_high);

  double loss = -ratio * advantage;
  double gradient = clamped ? 0 : loss;  // d ratio / d log_prob = ratio
  if (below || above) {
    loss = -(below ? 1 - static_cast<double>(term.clip_low)
                   : 1 + static_cast<double>(term.clip_high)) *
           advantage;
    gradient = 0;
  }
  const bool dual = advantage < 0 && term.dual_clip > 0 && loss > -advantage * term.dual_clip;
  if (dual) {
    loss = -advantage * term.dual_clip;
    gradient = 0;
  }

  sum_.policy_loss += policy_weights_[i] * loss;
  sum_.clip_fraction_low += below;
  sum_.clip_fraction_high += above;
  sum_.dual_clip_fraction += dual;
  sum_.ratio_mean += ratio;
  sum_.ratio_max = sum_.policy_tokens == 1 ? ratio : std::max(sum_.ratio_max, ratio);
  sum_.log_ratio_max_abs = std::max(sum_.log_ratio_max_abs, std::abs(log_ratio));
  sum_.ratio_clamped += clamped;
  return policy_weights_[i] * gradient;
}

double ObjectiveSum::add_kl(std::int64_t t, double log_prob) {
  const auto i = static_cast<std::size_t>(t);
  const double d = log_prob - objective_.reference_log_probs[i];
  double value = d, gradient = 1;  // k1
  if (objective_.kl.estimator == KlEstimator::k2) {
    value = d * d / 2;
    gradient = d;
  } else if (objective_.kl.estimator == KlEstimator::k3) {
    // expm1: exp(x) - x - 1 loses all digits where the two distributions nearly agree.
    const double x = std::min(-d, kMaxExponent);
    gradient = -std::expm1(x);
    value = std::expm1(x) - x + gradient * (d + x);  // d + x is 0 unless clamped: the tangent
    const double max_value = objective_.kl.max_value;
    const bool cut_off = max_value > 0 && value > max_value;
    if (cut_off) {
      value = max_value;
      gradient = 0;
    }
    sum_.kl_clamped += cut_off || -d > kMaxExponent;
  }
  sum_.kl_loss += policy_weights_[i] * value;
  return policy_weights_[i] * gradient;
}

double ObjectiveSum::add_distill(std::int64_t t, double log_prob) {
  const auto i = static_cast<std::size_t>(t);
  const DistillTerm& term = objective_.distill;
  const double low = term.clamp_low, high = term.clamp_high;
  const double gap = objective_.teacher_log_probs[i] - log_prob;
  const double w = std::clamp(gap, low, high);
  double gradient = -w;
  if (!term.detach && gap >= low && gap <= high) gradient += log_prob;  // dw/dlogprob = -1
  sum_.distill_loss -= distill_weights_[i] * w * log_prob;
  return distill_weights_[i] * gradient;
}

ObjectiveResult ObjectiveSum::result() const {
  ObjectiveResult result = sum_;
  if (objective_.policy.weight != 0 && result.policy_tokens > 0) {
    result.clip_fraction_low /= result.policy_tokens;
    result.clip_fraction_high /= result.policy_tokens;
    result.dual_clip_fraction /= result.policy_tokens;
    result.ratio_mean /= result.policy_tokens;
  } else {
    result.ratio_mean = 1;
  }
  result.loss = objective_.policy.weight * result.policy_loss +
                objective_.kl.weight * result.kl_loss +
                objective_.distill.weight * result.distill_loss +
                objective_.cross_entropy.weight * result.cross_entropy;
  return result;
}

}  // namespace hindsearch
