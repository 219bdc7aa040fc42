#include <cmath>
#include <string>

#include "native/core/error.h"
#include "native/objective/objective.h"

namespace hindsearch {
namespace {

// Options and columns go by the names that users of the package write.
[[noreturn]] void refuse(const std::string& message) {
  throw Error(code::kInvalidArgument, "objective: " + message);
}

void check_range(const char* field, double value, bool ok, const char* expected) {
  if (!ok) refuse(std::string(field) + " is " + std::to_string(value) + ", expected " + expected);
}

void check_finite(const char* field, float value) {
  check_range(field, value, std::isfinite(value), "a finite number");
}

void check_total(const char* field, double value) {
  check_range(field, value, std::isfinite(value) && value >= 0, "a finite number, 0 or more");
}

template <class T>
void check_length(const char* column, const std::vector<T>& values, std::int64_t tokens,
                  const char* needed_by) {
  if (static_cast<std::int64_t>(values.size()) == tokens) return;
  if (values.empty()) {
    refuse(std::string("the ") + needed_by + " term needs the column " + column +
           ", which is not given");
  }
  refuse(std::string(column) + " has " + std::to_string(values.size()) + " entries, expected " +
         std::to_string(tokens) + ", one per packed token");
}

// Where a token lies, for messages.
struct Place {
  std::int64_t sequence, position;
};
std::string to_string(const Place& place) {
  return "sequence " + std::to_string(place.sequence) + ", position " +
         std::to_string(place.position);
}

void check_value(const char* column, const std::vector<float>& values, std::int64_t t,
                 const Place& place) {
  const float value = values[static_cast<std::size_t>(t)];
  if (!std::isfinite(value)) {
    refuse(std::string(column) + " is " + std::to_string(value) + " at " + to_string(place) +
           ", inside a mask; expected a finite number");
  }
}

void check_options(const Objective& o) {
  check_finite("policy.weight", o.policy.weight);
  check_range("policy.clipLow", o.policy.clip_low,
              o.policy.clip_low >= 0 && o.policy.clip_low <= 1, "0 to 1");
  check_range("policy.clipHigh", o.policy.clip_high, o.policy.clip_high >= 0, "0 or more");
  check_range("policy.dualClip", o.policy.dual_clip,
              o.policy.dual_clip == 0 || o.policy.dual_clip > 1, "0 (off) or more than 1");
  if (o.policy.aggregation == Aggregation::fixed_length) {
    check_range("policy.fixedLength", o.policy.fixed_length,
                std::isfinite(o.policy.fixed_length) && o.policy.fixed_length > 0,
                "more than 0 for this aggregation");
  }
  check_finite("kl.weight", o.kl.weight);
  check_range("kl.maxValue", o.kl.max_value, o.kl.max_value >= 0, "0 (off) or more");
  check_finite("distill.weight", o.distill.weight);
  check_range("distill.clamp[0]", o.distill.clamp_low, o.distill.clamp_low <= o.distill.clamp_high,
              "at most distill.clamp[1]");
  if (o.distill.normalizer == DistillNormalizer::fixed) {
    check_range("distill.fixed", o.distill.fixed,
                std::isfinite(o.distill.fixed) && o.distill.fixed > 0,
                "more than 0 for this normalizer");
  }
  check_finite("crossEntropy.weight", o.cross_entropy.weight);
  check_total("totals.policyTokens", o.total_policy_tokens);
  check_total("totals.policySequences", o.total_policy_sequences);
  check_total("totals.sequences", o.total_sequences);
  check_total("totals.distillTokens", o.total_distill_tokens);
  check_total("totals.distillSequences", o.total_distill_sequences);
  check_total("totals.weight", o.total_weight);
}

void check_columns(const Objective& o, std::int64_t tokens) {
  if (o.policy.weight != 0) {
    check_length("policyMask", o.policy_mask, tokens, "policy");
    check_length("oldLogProbs", o.old_log_probs, tokens, "policy");
    check_length("advantages", o.advantages, tokens, "policy");
  }
  if (o.kl.weight != 0) {
    check_length("policyMask", o.policy_mask, tokens, "KL");
    check_length("referenceLogProbs", o.reference_log_probs, tokens, "KL");
  }
  if (o.distill.weight != 0) {
    check_length("distillMask", o.distill_mask, tokens, "distillation");
    check_length("teacherLogProbs", o.teacher_log_probs, tokens, "distillation");
    if (o.distill.normalizer == DistillNormalizer::policy_tokens) {
      check_length("policyMask", o.policy_mask, tokens, "distillation");
    }
    if (!o.policy_mask.empty()) check_length("policyMask", o.policy_mask, tokens, "distillation");
  }
  if (o.cross_entropy.weight != 0) check_length("weights", o.weights, tokens, "cross-entropy");
}

void check_token(const Objective& o, std::int64_t t, const Place& place) {
  const auto i = static_cast<std::size_t>(t);
  const bool policy = (o.policy.weight != 0 || o.kl.weight != 0) && o.policy_mask[i] != 0;
  const bool distill = o.distill.weight != 0 && o.distill_mask[i] != 0;
  const bool cross_entropy = o.cross_entropy.weight != 0 && o.weights[i] != 0;
  if (place.position == 0 && (policy || distill || cross_entropy)) {
    refuse(std::string(policy    ? "policyMask"
                       : distill ? "distillMask"
                                 : "weights") +
           " is set at " + to_string(place) +
           "; nothing predicts the first token of a sequence, so it can be in no mask");
  }
  if (policy && o.policy.weight != 0) {
    check_value("oldLogProbs", o.old_log_probs, t, place);
    check_value("advantages", o.advantages, t, place);
  }
  if (policy && o.kl.weight != 0)
    check_value("referenceLogProbs", o.reference_log_probs, t, place);
  if (distill) {
    check_value("teacherLogProbs", o.teacher_log_probs, t, place);
    if (!o.policy_mask.empty() && o.policy_mask[i] == 0) {
      refuse("distillMask is set at " + to_string(place) +
             " where policyMask is not; only tokens that the policy wrote can be distilled");
    }
  }
  if (cross_entropy) check_value("weights", o.weights, t, place);
}

}  // namespace

void validate(const Objective& objective, std::span<const std::int64_t> offsets) {
  if (offsets.empty() || offsets.front() != 0) refuse("offsets must start with 0");
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    if (offsets[b] > offsets[b + 1]) refuse("offsets fall at sequence " + std::to_string(b));
  }
  check_options(objective);
  check_columns(objective, offsets.back());
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    for (std::int64_t t = offsets[b]; t < offsets[b + 1]; ++t) {
      check_token(objective, t, {static_cast<std::int64_t>(b), t - offsets[b]});
    }
  }
}

}  // namespace hindsearch
