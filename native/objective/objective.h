// Losses as pure functions of per-token columns.
//
// GRPO, KL and the HindSearch term depend on the student only through the log-prob of the sampled
// token, so an objective maps columns (log-prob, old, reference, teacher, advantage, masks) to loss
// terms and dL/dlogprob. Every per-token weight (mask times aggregation) is computed once for the
// whole batch from the masks, so that micro-batches cannot change the loss.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hindsearch {

// How per-token losses become one number. N: tokens in the mask; B: sequences with at least one (a
// fully masked sequence is not counted, as in verl).
enum class Aggregation {
  token_mean,                // sum / N
  sequence_mean_token_mean,  // mean over sequences of their token mean
  sequence_sum,              // sum / B
  fixed_length  // sum / (sequences in the batch * fixed_length): Dr. GRPO (arXiv:2503.20783)
};

// d = log-prob - reference. As loss terms, so with the gradient of the value.
enum class KlEstimator {
  k1,  // d: unbiased as a metric; its gradient as a loss is that of -log-likelihood, not of the KL
  k2,  // d^2 / 2
  k3  // exp(-d) + d - 1; above -d = 20 continued by its tangent, so that a token the policy has all
      // but ruled out pulls back with a bounded gradient of the right sign
};

// What the HindSearch term divides by.
enum class DistillNormalizer {
  distill_tokens,  // sum / tokens in the distillation mask
  policy_tokens,   // sum / tokens in the policy mask
  sequences,       // mean over sequences with a distilled token of their token mean
  fixed            // sum / fixed
};

// -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), r = exp(log-prob - old), the log ratio clamped
// to +-20, without gradient outside. For A < 0 dual_clip bounds the loss by -dual_clip * A (Ye et
// al. 2020, arXiv:1912.09729).
struct PolicyTerm {
  float weight = 1;  // 0: off
  float clip_low = 0.2f;
  float clip_high = 0.2f;
  float dual_clip = 0;  // 0: off; else > 1
  Aggregation aggregation = Aggregation::token_mean;
  float fixed_length = 0;  // tokens; needed by Aggregation::fixed_length
};

// Over the policy mask, aggregated like the policy term.
struct KlTerm {
  float weight = 0;  // 0: off
  KlEstimator estimator = KlEstimator::k3;
  // 0: off; else the value of k3 is cut off here, without gradient above (verl, Search-R1: 10).
  // That changes the estimator: it stops pulling just where the policy has gone furthest.
  float max_value = 0;
};

// The HindSearch term: -w * log-prob, w = clamp(teacher - log-prob, clamp_low, clamp_high).
struct DistillTerm {
  float weight = 0;  // 0: off
  float clamp_low = 0;
  float clamp_high = 1;
  bool detach = true;  // no gradient through w
  DistillNormalizer normalizer = DistillNormalizer::distill_tokens;
  float fixed = 1;
};

// -sum(w * log-prob) / sum(w) with the `weights` column. With total_weight given w may be negative
// (a policy gradient without ratio).
struct CrossEntropyTerm {
  float weight = 0;  // 0: off
};

// Columns have one entry per packed token; the first token of a sequence is never in a mask. Empty
// vectors stand for "not given" and are an error if a term that is on needs them.
struct Objective {
  PolicyTerm policy;
  KlTerm kl;
  DistillTerm distill;
  CrossEntropyTerm cross_entropy;

  std::vector<std::uint8_t> policy_mask;   // tokens the policy wrote
  std::vector<std::uint8_t> distill_mask;  // search tokens of failed trajectories with a critique
  std::vector<float> old_log_probs;        // of the sampler
  std::vector<float> reference_log_probs;
  std::vector<float> teacher_log_probs;
  std::vector<float> advantages;
  std::vector<float> weights;  // cross entropy

  // Counts of the global batch, when this batch is a part of one; 0: count here.
  double total_policy_tokens = 0;
  double total_policy_sequences = 0;  // with at least one policy token
  double total_sequences = 0;
  double total_distill_tokens = 0;
  double total_distill_sequences = 0;  // with at least one distilled token
  double total_weight = 0;
};

struct ObjectiveResult {
  double loss = 0;  // sum of weight * term
  double policy_loss = 0;
  double kl_loss = 0;  // value of the estimator, aggregated like the policy term
  double distill_loss = 0;
  double cross_entropy = 0;
  double policy_tokens = 0;       // of this batch, whatever the totals say
  double distill_tokens = 0;      // likewise
  double clip_fraction_low = 0;   // of policy tokens: A < 0 and r < 1 - clip_low
  double clip_fraction_high = 0;  // A > 0 and r > 1 + clip_high
  double dual_clip_fraction = 0;
  double ratio_mean = 1;
  double ratio_max = 1;
  double log_ratio_max_abs = 0;  // |log-prob - old|
  double ratio_clamped = 0;      // tokens whose log ratio was beyond +-20
  double kl_clamped = 0;         // tokens whose k3 exponent was above 20 or whose value was cut off
  std::vector<float> log_probs;  // of the student, per packed token; 0 where no term looks
};

// Throws Error(INVALID_ARGUMENT): options out of range, column lengths, first tokens in masks,
// distilled tokens that the policy did not write, non-finite inputs in a mask.
void validate(const Objective&, std::span<const std::int64_t> offsets);

// Evaluates an objective over one batch. `add` is called once for every scored token; the sums
// depend on nothing but the order of the calls.
class ObjectiveSum {
 public:
  // Validates. Keeps a reference to the objective.
  ObjectiveSum(const Objective&, std::span<const std::int64_t> offsets);
  ObjectiveSum(Objective&&, std::span<const std::int64_t>) = delete;

  // Whether some term that is on looks at token t.
  bool scored(std::int64_t t) const;
  // Whether dL/dlogprob of token t can be anything but 0, whatever its log-prob.
  bool has_gradient(std::int64_t t) const;
  // Adds the terms of token t and returns dL/dlogprob.
  double add(std::int64_t t, float log_prob);
  // The result, without log_probs.
  ObjectiveResult result() const;

 private:
  double add_policy(std::int64_t t, double log_prob);
  double add_kl(std::int64_t t, double log_prob);
  double add_distill(std::int64_t t, double log_prob);

  const Objective& objective_;
  // What a token's loss is multiplied with; empty where the term is off.
  std::vector<double> policy_weights_, distill_weights_, cross_entropy_weights_;
  ObjectiveResult sum_;  // fractions and ratio_mean still as counts and sums
};

}  // namespace hindsearch
