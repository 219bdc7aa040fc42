#include "native/test/golden_losses.h"

#include <cmath>
#include <functional>
#include <limits>

namespace hindsearch::testing {
namespace {

using Columns = GoldenColumns;

GoldenLoss grpo(const Columns& c, float clip_high, float dual_clip,
                Aggregation aggregation = Aggregation::token_mean) {
  GoldenLoss loss;
  Objective& o = loss.objective;
  o.policy.clip_low = 0.2f;
  o.policy.clip_high = clip_high;
  o.policy.dual_clip = dual_clip;
  o.policy.aggregation = aggregation;
  o.policy_mask = c.response;
  o.old_log_probs = c.old_log_probs;
  o.advantages = c.advantage;
  return loss;
}

// The defaults of verl's and of TRL's golden cases.
GoldenLoss verl(const Columns& c, Aggregation aggregation = Aggregation::token_mean) {
  return grpo(c, 0.28f, 3, aggregation);
}
GoldenLoss trl(const Columns& c, Aggregation aggregation = Aggregation::token_mean) {
  return grpo(c, 0.28f, 0, aggregation);
}
double all_sequences(const Columns& c) { return static_cast<double>(c.offsets.size()) - 1; }

GoldenLoss with_kl(GoldenLoss loss, const Columns& c, float weight, KlEstimator estimator,
                   float max_value = 0) {
  loss.objective.kl = {weight, estimator, max_value};
  loss.objective.reference_log_probs = c.reference;
  return loss;
}

GoldenLoss with_advantages(GoldenLoss loss, Column advantages) {
  loss.objective.advantages = std::move(advantages);
  return loss;
}

GoldenLoss fixed_length(GoldenLoss loss, float length, double sequences) {
  loss.objective.policy.aggregation = Aggregation::fixed_length;
  loss.objective.policy.fixed_length = length;
  loss.objective.total_sequences = sequences;
  return loss;
}

GoldenLoss over_sequences(GoldenLoss loss, double sequences) {
  loss.objective.total_policy_sequences = sequences;
  return loss;
}

// The policy term over the distilled tokens.
GoldenLoss distilled(GoldenLoss loss, const Columns& c) {
  loss.objective.policy_mask = c.distill;
  return loss;
}

// KL(student, teacher) as the only term.
GoldenLoss kl_to_teacher(const Columns& c, KlEstimator estimator, Aggregation aggregation) {
  GoldenLoss loss = distilled(verl(c, aggregation), c);
  loss.objective.policy.weight = 0;
  loss.objective.kl = {1, estimator, 10};
  loss.objective.reference_log_probs = c.teacher;
  return loss;
}

GoldenLoss cross_entropy(Column weights, double total) {
  GoldenLoss loss;
  loss.objective.policy.weight = 0;
  loss.objective.cross_entropy.weight = 1;
  loss.objective.weights = std::move(weights);
  loss.objective.total_weight = total;
  return loss;
}

GoldenLoss sampled_token_opd(const Columns& c) {
  GoldenLoss loss;
  Objective& o = loss.objective;
  o.policy.weight = 0;
  o.distill.weight = 1;
  o.distill.clamp_low = -std::numeric_limits<float>::infinity();
  o.distill.clamp_high = std::numeric_limits<float>::infinity();
  o.distill.normalizer = DistillNormalizer::sequences;
  o.distill_mask = c.distill;
  o.teacher_log_probs = c.teacher;
  o.total_distill_sequences = all_sequences(c);
  return loss;
}

// -sum exp(logp - rollout) * A: the policy term without a clip.
GoldenLoss importance_sampling(const Columns& c) {
  GoldenLoss loss = distilled(grpo(c, std::numeric_limits<float>::infinity(), 0), c);
  loss.objective.policy.clip_low = 1;
  loss.objective.old_log_probs = c.rollout;
  loss.objective.total_policy_tokens = 1;
  return with_advantages(std::move(loss), fill(c, [&](std::size_t t) {
                           return c.distill[t] ? 0.7 * (double{c.teacher[t]} - c.rollout[t]) : 0;
                         }));
}

GoldenLoss temperature(const Columns& c) {
  GoldenLoss loss = verl(c);
  loss.temperature = 0.7f;
  loss.objective.old_log_probs = c.old_temperature;
  return loss;
}

GoldenLoss token_sum(const Columns& c) {
  GoldenLoss loss = verl(c);
  loss.objective.total_policy_tokens = 1;
  return loss;
}

GoldenLoss task_plus_distill(const Columns& c) {
  GoldenLoss loss = distilled(verl(c), c);
  loss.objective.kl = {0.3f, KlEstimator::k3, 10};
  loss.objective.reference_log_probs = c.teacher;
  return loss;
}

using Builder = std::function<GoldenLoss(const Columns&)>;
using A = Aggregation;
using K = KlEstimator;

const std::map<std::string, Builder>& builders() {
  static const std::map<std::string, Builder> all = {
      {"sft/response_token_mean", [](auto& c) { return cross_entropy(mask_column(c), 0); }},
      {"sft/num_items", [](auto& c) { return cross_entropy(mask_column(c), 64); }},
      {"sft/all_tokens", [](auto& c) { return cross_entropy(all_but_first(c), 0); }},
      {"sft/seq_mean_token_mean",
       [](auto& c) { return cross_entropy(sequence_mean_weights(c), 0); }},
      {"gpg/verl",
       [](auto& c) {
         return cross_entropy(
             fill(c, [&](std::size_t t) { return c.response[t] ? c.advantage[t] : 0; }),
             count(c.response));
       }},
      {"grpo/verl/token-mean", [](auto& c) { return verl(c); }},
      {"grpo/verl/seq-mean-token-mean",
       [](auto& c) { return verl(c, A::sequence_mean_token_mean); }},
      {"grpo/verl/seq-mean-token-sum", [](auto& c) { return verl(c, A::sequence_sum); }},
      {"grpo/verl/seq-mean-token-sum-norm",
       [](auto& c) { return fixed_length(verl(c), c.padded_width, c.non_empty_sequences()); }},
      {"grpo/verl/seq-mean-token-sum-norm-const",
       [](auto& c) { return fixed_length(verl(c), 40, c.non_empty_sequences()); }},
      {"grpo/verl/token-sum", token_sum},
      {"grpo/verl/symmetric-nodual", [](auto& c) { return grpo(c, 0.2f, 0); }},
      {"grpo/verl/temperature", temperature},
      {"grpo/verl/kl-k1", [](auto& c) { return with_kl(verl(c), c, 0.1f, K::k1); }},
      {"grpo/verl/kl-k2", [](auto& c) { return with_kl(verl(c), c, 0.1f, K::k2); }},
      {"grpo/verl/kl-k3", [](auto& c) { return with_kl(verl(c), c, 0.1f, K::k3, 10); }},
      {"grpo/verl/kl-k3-seq-mean-token-mean",
       [](auto& c) { return with_kl(verl(c, A::sequence_mean_token_mean), c, 0.1f, K::k3, 10); }},
      {"drgrpo/verl",
       [](auto& c) {
         return fixed_length(with_advantages(verl(c), c.advantage_nostd), 40,
                             c.non_empty_sequences());
       }},
      {"tis/verl/token", [](auto& c) { return with_advantages(verl(c), truncated_importance(c)); }},
      {"tis/verl/token-batchnorm",
       [](auto& c) { return with_advantages(verl(c), batch_normalised_importance(c)); }},
      {"tis/verl/sequence",
       [](auto& c) { return with_advantages(verl(c), sequence_importance(c, false)); }},
      {"tis/verl/icepop", [](auto& c) { return with_advantages(verl(c), icepop(c)); }},
      {"grpo/trl/grpo",
       [](auto& c) {
         return over_sequences(trl(c, A::sequence_mean_token_mean), all_sequences(c));
       }},
      {"grpo/trl/bnpo", [](auto& c) { return trl(c); }},
      {"grpo/trl/dapo", [](auto& c) { return trl(c); }},
      {"grpo/trl/dr_grpo",
       [](auto& c) {
         return fixed_length(with_advantages(trl(c), c.advantage_nostd), 40, all_sequences(c));
       }},
      {"grpo/trl/kl",
       [](auto& c) {
         return with_kl(over_sequences(trl(c, A::sequence_mean_token_mean), all_sequences(c)), c,
                        0.1f, K::k3);
       }},
      {"grpo/trl/off-policy-mask",
       [](auto& c) { return with_advantages(trl(c), off_policy_masked(c)); }},
      {"tis/trl/token_truncate",
       [](auto& c) { return with_advantages(trl(c), truncated_importance(c)); }},
      {"tis/trl/sequence_mask",
       [](auto& c) { return with_advantages(trl(c), sequence_importance(c, true)); }},
      {"grpo/slime",
       [](auto& c) { return over_sequences(verl(c, A::sequence_mean_token_mean), 1); }},
      {"grpo/openrlhf", [](auto& c) { return verl(c); }},
      {"distill/sdft/sampled_token", sampled_token_opd},
      {"distill/iw/importance_weighted_opd",
       [](auto& c) { return cross_entropy(importance_weighted_opd(c), count(c.distill)); }},
      {"distill/verl/k1_policy_gradient",
       [](auto& c) {
         return distilled(with_advantages(grpo(c, 0.2f, 3), current_teacher_gap(c, 10)), c);
       }},
      {"distill/verl/k1_policy_gradient_clamped",
       [](auto& c) {
         return distilled(with_advantages(grpo(c, 0.2f, 3), current_teacher_gap(c, 0.5)), c);
       }},
      {"distill/verl/k3_direct", [](auto& c) { return kl_to_teacher(c, K::k3, A::token_mean); }},
      {"distill/verl/k2_direct",
       [](auto& c) { return kl_to_teacher(c, K::k2, A::sequence_mean_token_mean); }},
      {"distill/openclaw/token_opd",
       [](auto& c) {
         return with_kl(over_sequences(with_advantages(trl(c, A::sequence_mean_token_mean),
                                                       plus_teacher_gap(c, 0, 1, INFINITY)),
                                       1),
                        c, 0.05f, K::k3, 10);
       }},
      {"distill/tinker_importance_sampling", importance_sampling},
      {"combined/openclaw",
       [](auto& c) {
         return with_kl(over_sequences(with_advantages(trl(c, A::sequence_mean_token_mean),
                                                       plus_teacher_gap(c, 1, 1, INFINITY)),
                                       1),
                        c, 0.05f, K::k3, 10);
       }},
      {"combined/slime_opd_kl_in_advantage",
       [](auto& c) {
         return over_sequences(with_advantages(trl(c, A::sequence_mean_token_mean),
                                               plus_teacher_gap(c, 1, 0.7, INFINITY)),
                               1);
       }},
      {"combined/verl_task_plus_distill", task_plus_distill},
      {"combined/grpo_plus_clipped_opd_advantage",
       [](auto& c) { return with_advantages(verl(c), plus_teacher_gap(c, 1, 0.3, 0.5)); }},
  };
  return all;
}

}  // namespace

bool has_golden_loss(const std::string& id) { return builders().contains(id); }

GoldenLoss golden_loss(const std::string& id, const GoldenColumns& columns) {
  return builders().at(id)(columns);
}

const std::map<std::string, std::string>& golden_losses_left_out() {
  static const std::string ratio = "another policy loss than the clipped ratio";
  static const std::string whole = "needs the whole distribution of the teacher, not one log-prob";
  static const std::string entropy = "an entropy bonus is not offered";
  static const std::string kl = "another KL estimator than k1, k2, k3";
  static const std::map<std::string, std::string> all = {
      {"grpo/verl/kl-abs", kl},
      {"grpo/verl/kl-k1+", kl},
      {"grpo/verl/kl-k3+", kl},
      {"grpo/trl/kl-bias-corrected", kl},
      {"grpo/verl/entropy-bonus", entropy},
      {"grpo/trl/two-sided-delta", ratio},
      {"gspo/verl", ratio},
      {"gspo/trl", ratio},
      {"gspo/openrlhf", ratio},
      {"cispo/verl", ratio},
      {"cispo/trl", ratio},
      {"sapo/verl", ratio},
      {"sapo/trl", ratio},
      {"gmpo/verl", ratio},
      {"vespo/trl", ratio},
      {"distill/minillm_advantage", "its loss is grpo/trl/dapo; the advantage is the caller's"},
      {"distill/reverse_kl", whole},
      {"distill/forward_kl", whole},
      {"distill/jsd_0.1", whole},
      {"distill/jsd_0.5", whole},
      {"distill/jsd_0.9", whole},
      {"distill/reverse_kl_temp", whole},
      {"distill/jsd_temp", whole},
      {"distill/forward_kl_temp", whole},
      {"distill/forward_kl_temp_hinton", whole},
      {"distill/reverse_kl_sum", whole},
      {"distill/reverse_kl_num_items", whole},
      {"distill/sdft/reverse_kl", whole},
      {"distill/sdft/forward_kl", whole},
      {"distill/sdft/topk_renorm_reverse", whole},
      {"distill/sdft/topk_tail_reverse", whole},
      {"distill/sdft/topk_tail_forward", whole},
      {"distill/sdft/topk_renorm_jsd", whole},
      {"distill/sdft/reverse_kl_isclip", whole},
      {"distill/iw/topk_tail_forward", whole},
      {"distill/iw/topk_renorm_forward", whole},
      {"distill/iw/topk_tail_jsd", whole},
      {"distill/iw/topk_renorm_jsd_temp", whole},
      {"distill/openclaw/topk_tail_reverse", whole},
      {"distill/verl/forward_kl_topk", whole},
      {"combined/grpo_plus_reverse_kl", whole},
      {"combined/grpo_plus_forward_kl", whole},
      {"combined/grpo_plus_jsd", whole},
  };
  return all;
}

}  // namespace hindsearch::testing
