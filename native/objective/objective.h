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

// How per-token losses become one number. N: tokens in the mask; B: sequences with at least one.
enum class Aggregation {
  token_mean,               // sum / N
  sequence_mean_token_mean, // mean over sequences of their token mean
  sequence_sum,             // sum / B
  fixed_length              // sum / (sequences in the batch * fixed_length): Dr. GRPO
};
enum class KlEstimator { k1, k2, k3 };
// What the HindSearch term divides by.
enum class DistillNormalizer { distill_tokens, policy_tokens, sequences, fixed };

struct PolicyTerm {
  float weight = 1;
  float clip_low = 0.2f;
  float clip_high = 0.2f;
  float dual_clip = 0;  // 0: off; else > 1, the bound on ratio for negative advantages
  Aggregation aggregation = Aggregation::token_mean;
  float fixed_length = 0;
};
struct KlTerm {
  float weight = 0;  // 0: off
  KlEstimator estimator = KlEstimator::k3;
};
struct DistillTerm {
  float weight = 0;  // 0: off
  float clamp_low = 0;
  float clamp_high = 1;
  bool detach = true;
  DistillNormalizer normalizer = DistillNormalizer::distill_tokens;
  float fixed = 1;
};
struct CrossEntropyTerm {
  float weight = 0;  // 0: off. -sum(w * logp) / sum(w) with the `weights` column
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
  double total_policy_sequences = 0;
  double total_sequences = 0;
  double total_distill_tokens = 0;
  double total_weight = 0;
};

struct ObjectiveResult {
  double loss = 0;  // sum of weight * term
  double policy_loss = 0;
  double kl_loss = 0;       // value of the estimator, aggregated like the policy term
  double distill_loss = 0;
  double cross_entropy = 0;
  double policy_tokens = 0;
  double distill_tokens = 0;
  double clip_fraction_low = 0;   // of policy tokens
  double clip_fraction_high = 0;
  double dual_clip_fraction = 0;
  double ratio_mean = 1;
  double ratio_max = 1;
  double log_ratio_max_abs = 0;  // |log-prob - old|
  double ratio_clamped = 0;      // tokens whose log ratio was beyond +-20
  double kl_clamped = 0;         // tokens whose KL exponent was beyond +-20
  std::vector<float> log_probs;  // of the student, per packed token
};

// Throws Error(INVALID_ARGUMENT): column lengths, first tokens in masks, non-finite inputs in a mask.
void validate(const Objective&, std::span<const std::int64_t> offsets);

// Per-token aggregation weights of the whole batch.
struct ObjectiveWeights {
  std::vector<double> policy;
  std::vector<double> distill;
  std::vector<double> cross_entropy;
};
ObjectiveWeights objective_weights(const Objective&, std::span<const std::int64_t> offsets);

// Adds the terms of token t to `result` and returns dL/dlogprob.
double token_gradient(const Objective&, const ObjectiveWeights&, std::int64_t t, float log_prob,
                      ObjectiveResult& result);

}  // namespace hindsearch
