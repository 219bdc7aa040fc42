#include "native/objective/objective.h"

#include <cmath>
#include <limits>
#include <string>

#include "native/core/error.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

using Offsets = std::vector<std::int64_t>;

// One sequence of two tokens; the second is distilled.
Objective one_distilled(float teacher) {
  Objective o;
  o.policy.weight = 0;
  o.distill.weight = 1;
  o.distill_mask = {0, 1};
  o.teacher_log_probs = {0, teacher};
  return o;
}

struct Evaluated {
  ObjectiveResult result;
  std::vector<double> gradients;
};
Evaluated evaluate(const Objective& o, const Offsets& offsets,
                   const std::vector<float>& log_probs) {
  ObjectiveSum sum(o, offsets);
  Evaluated evaluated;
  for (std::size_t t = 0; t < log_probs.size(); ++t) {
    const auto i = static_cast<std::int64_t>(t);
    evaluated.gradients.push_back(sum.scored(i) ? sum.add(i, log_probs[t]) : 0);
  }
  evaluated.result = sum.result();
  return evaluated;
}

// Sequences of 4, 3 and 2 tokens; the third has no policy token.
const Offsets kOffsets = {0, 4, 7, 9};
Objective three_sequences() {
  Objective o;
  o.policy_mask = {0, 1, 1, 1, 0, 0, 1, 0, 0};
  o.distill_mask = {0, 1, 0, 0, 0, 0, 1, 0, 0};
  o.old_log_probs = {0, -1, -2, -1.5f, 0, 0, -0.5f, 0, 0};
  o.reference_log_probs = {0, -1.1f, -1.9f, -1.5f, 0, 0, -0.7f, 0, 0};
  o.teacher_log_probs = {0, -0.5f, 0, 0, 0, 0, -0.1f, 0, 0};
  o.advantages = {0, 1, 1, 1, 0, 0, -0.5f, 0, 0};
  o.weights = {0, 1, 0.5f, 0, 0, 2, 1, 0, 0};
  return o;
}
const std::vector<float> kLogProbs = {0, -1.05f, -1.95f, -1.45f, 0, -3, -0.6f, 0, -2};

}  // namespace

// The three cases of the method's specification, and its remark on the gradient that stop-gradient
// leaves out.
TEST(distill_term_has_the_documented_values) {
  const auto check = [](float teacher, float student, double loss, double gradient, double full) {
    Objective o = one_distilled(teacher);
    const Evaluated detached = evaluate(o, {0, 2}, {0, student});
    CHECK_NEAR(detached.result.loss, loss, 1e-6);
    CHECK_NEAR(detached.gradients[1], gradient, 1e-6);
    CHECK_EQ(detached.result.distill_tokens, 1);
    o.distill.detach = false;
    CHECK_NEAR(evaluate(o, {0, 2}, {0, student}).gradients[1], full, 1e-6);
  };
  check(-0.5f, -1.2f, 0.84, -0.7, 2 * -1.2 + 0.5);
  check(-0.1f, -3.0f, 3.0, -1, -1);
  check(-2.0f, -1.0f, 0, 0, 0);
}

TEST(distill_normalizers) {
  Objective o = three_sequences();
  o.policy.weight = 0;
  o.distill.weight = 1;
  // Gaps 0.55 and 0.5 in sequences with one distilled token each.
  const double first = 0.55 * 1.05, second = 0.5 * 0.6;
  const auto loss = [&] { return evaluate(o, kOffsets, kLogProbs).result.distill_loss; };
  CHECK_NEAR(loss(), (first + second) / 2, 1e-6);
  o.distill.normalizer = DistillNormalizer::policy_tokens;
  CHECK_NEAR(loss(), (first + second) / 4, 1e-6);
  o.distill.normalizer = DistillNormalizer::fixed;
  o.distill.fixed = 10;
  CHECK_NEAR(loss(), (first + second) / 10, 1e-6);
  o.distill.normalizer = DistillNormalizer::sequences;
  o.policy_mask[5] = o.distill_mask[5] = 1;
  o.teacher_log_probs[5] = -2.75f;  // gap 0.25
  CHECK_NEAR(loss(), (first + (second + 0.25 * 3) / 2) / 2, 1e-6);
}

TEST(empty_masks_give_exactly_zero) {
  Objective o = three_sequences();
  o.kl.weight = o.distill.weight = o.cross_entropy.weight = 1;
  o.policy_mask.assign(9, 0);
  o.distill_mask.assign(9, 0);
  o.weights.assign(9, 0);
  for (const Aggregation aggregation :
       {Aggregation::token_mean, Aggregation::sequence_mean_token_mean, Aggregation::sequence_sum,
        Aggregation::fixed_length}) {
    o.policy.aggregation = aggregation;
    o.policy.fixed_length = 8;
    const ObjectiveResult result = evaluate(o, kOffsets, kLogProbs).result;
    CHECK_EQ(result.loss, 0.0);
    CHECK_EQ(result.policy_tokens, 0.0);
    CHECK_EQ(result.ratio_mean, 1.0);
    CHECK_EQ(result.ratio_max, 1.0);
  }
}

TEST(aggregations_count_only_sequences_with_policy_tokens) {
  Objective o = three_sequences();
  const auto loss = [&] { return evaluate(o, kOffsets, kLogProbs).result.policy_loss; };
  double first = 0;
  for (const std::size_t t : {1, 2, 3})
    first -= std::exp(double{kLogProbs[t]} - o.old_log_probs[t]);
  const double second = 0.5 * std::exp(double{kLogProbs[6]} - o.old_log_probs[6]);
  CHECK_NEAR(loss(), (first + second) / 4, 1e-7);
  o.policy.aggregation = Aggregation::sequence_mean_token_mean;
  CHECK_NEAR(loss(), (first / 3 + second) / 2, 1e-7);
  o.policy.aggregation = Aggregation::sequence_sum;
  CHECK_NEAR(loss(), (first + second) / 2, 1e-7);
  o.policy.aggregation = Aggregation::fixed_length;
  o.policy.fixed_length = 10;
  CHECK_NEAR(loss(), (first + second) / 30, 1e-7);
}

// Parts of a batch with the counts of the whole add up to the whole, for every term at once.
TEST(parts_with_global_totals_add_up) {
  for (const Aggregation aggregation :
       {Aggregation::token_mean, Aggregation::sequence_mean_token_mean, Aggregation::sequence_sum,
        Aggregation::fixed_length}) {
    for (const DistillNormalizer normalizer :
         {DistillNormalizer::distill_tokens, DistillNormalizer::policy_tokens,
          DistillNormalizer::sequences, DistillNormalizer::fixed}) {
      Objective whole = three_sequences();
      whole.kl.weight = whole.distill.weight = whole.cross_entropy.weight = 0.5f;
      whole.policy.aggregation = aggregation;
      whole.policy.fixed_length = 8;
      whole.distill.normalizer = normalizer;
      const Evaluated expected = evaluate(whole, kOffsets, kLogProbs);
      double loss = 0;
      std::vector<double> gradients;
      for (std::size_t b = 0; b < 3; ++b) {
        const auto cut = [&](const auto& column) {
          return std::decay_t<decltype(column)>(column.begin() + kOffsets[b],
                                                column.begin() + kOffsets[b + 1]);
        };
        Objective part = whole;
        part.policy_mask = cut(whole.policy_mask);
        part.distill_mask = cut(whole.distill_mask);
        part.old_log_probs = cut(whole.old_log_probs);
        part.reference_log_probs = cut(whole.reference_log_probs);
        part.teacher_log_probs = cut(whole.teacher_log_probs);
        part.advantages = cut(whole.advantages);
        part.weights = cut(whole.weights);
        part.total_policy_tokens = 4;
        part.total_policy_sequences = 2;
        part.total_sequences = 3;
        part.total_distill_tokens = 2;
        part.total_distill_sequences = 2;
        part.total_weight = 4.5;
        const Evaluated evaluated =
            evaluate(part, {0, kOffsets[b + 1] - kOffsets[b]}, cut(kLogProbs));
        loss += evaluated.result.loss;
        gradients.insert(gradients.end(), evaluated.gradients.begin(), evaluated.gradients.end());
      }
      CHECK_NEAR(loss, expected.result.loss, 1e-14);
      for (std::size_t t = 0; t < gradients.size(); ++t) {
        CHECK_NEAR(gradients[t], expected.gradients[t], 1e-14);
      }
    }
  }
}

// Central differences over all terms. The step is exact in float32.
TEST(gradients_are_derivatives) {
  Objective o = three_sequences();
  o.policy.clip_low = o.policy.clip_high = 0.5f;
  o.kl.weight = 0.3f;
  o.distill.weight = 0.7f;
  o.distill.detach = false;
  o.cross_entropy.weight = 0.4f;
  for (const KlEstimator estimator : {KlEstimator::k1, KlEstimator::k2, KlEstimator::k3}) {
    o.kl.estimator = estimator;
    const Evaluated at = evaluate(o, kOffsets, kLogProbs);
    for (std::size_t t = 0; t < kLogProbs.size(); ++t) {
      std::vector<float> above = kLogProbs, below = kLogProbs;
      above[t] += 0x1p-10f;
      below[t] -= 0x1p-10f;
      const double slope =
          (evaluate(o, kOffsets, above).result.loss - evaluate(o, kOffsets, below).result.loss) /
          (double{above[t]} - below[t]);
      CHECK_NEAR(at.gradients[t], slope, 1e-6);
    }
  }
}

// Whatever the log-probs turn out to be: a token said to have no gradient has none.
TEST(tokens_without_gradient_are_known_beforehand) {
  Objective o = three_sequences();
  o.advantages[3] = 0;
  const auto known = [&] {
    const ObjectiveSum sum(o, kOffsets);
    std::string tokens;
    for (std::int64_t t = 0; t < kOffsets.back(); ++t) {
      if (sum.has_gradient(t)) tokens += std::to_string(t);
    }
    for (const float shift : {0.0f, -30.0f, 1.0f}) {
      std::vector<float> log_probs = kLogProbs;
      for (float& log_prob : log_probs) log_prob += shift;
      const Evaluated evaluated = evaluate(o, kOffsets, log_probs);
      for (std::size_t t = 0; t < log_probs.size(); ++t) {
        if (tokens.find(std::to_string(t)) == std::string::npos)
          CHECK_EQ(evaluated.gradients[t], 0);
      }
    }
    return tokens;
  };
  CHECK_EQ(known(), "126");
  o.kl.weight = 0.001f;
  CHECK_EQ(known(), "1236");
  o.policy.weight = 0;
  CHECK_EQ(known(), "1236");
  o.kl.weight = 0;
  o.distill.weight = 1;
  CHECK_EQ(known(), "16");
  o.cross_entropy.weight = 1;
  CHECK_EQ(known(), "1256");
}

TEST(ratios_are_clipped_and_counted) {
  Objective o;
  o.policy.dual_clip = 3;
  o.policy_mask = {0, 1, 1, 1, 1, 1, 1};
  o.old_log_probs = {0, -1, -1, -1, -1, -50, -1};
  o.advantages = {0, 1, 1, -1, -1, 1, -1};
  // Ratios: e, 1/e, 1/e, e^2 (over the dual clip), beyond +20, beyond -20.
  const Evaluated e = evaluate(o, {0, 7}, {0, 0, -2, -2, 1, -1, -60});
  CHECK_EQ(e.gradients[1], 0.0);                           // A > 0, ratio above 1.2
  CHECK_NEAR(e.gradients[2], -std::exp(-1.0) / 6, 1e-12);  // A > 0, ratio below 0.8: unclipped
  CHECK_EQ(e.gradients[3], 0.0);                           // A < 0, ratio below 0.8
  CHECK_EQ(e.gradients[4], 0.0);                           // A < 0, ratio above 3
  CHECK_EQ(e.gradients[5], 0.0);
  CHECK_EQ(e.gradients[6], 0.0);
  const ObjectiveResult& r = e.result;
  CHECK_NEAR(r.clip_fraction_high, 2.0 / 6, 1e-12);
  CHECK_NEAR(r.clip_fraction_low, 2.0 / 6, 1e-12);
  CHECK_NEAR(r.dual_clip_fraction, 1.0 / 6, 1e-12);
  CHECK_EQ(r.ratio_clamped, 2.0);
  CHECK_NEAR(r.log_ratio_max_abs, 59, 1e-12);
  CHECK_NEAR(r.ratio_max, std::exp(20.0), 1);
  CHECK_NEAR(r.loss, (-1.2 - std::exp(-1.0) + 0.8 + 3 - 1.2 + 0.8) / 6, 1e-7);
}

// A log ratio beyond the clamp has no gradient even where no clip applies.
TEST(clamped_log_ratio_has_no_gradient) {
  Objective o;
  o.policy.clip_low = 1;
  o.policy.clip_high = std::numeric_limits<float>::infinity();
  o.policy_mask = {0, 1, 1};
  o.old_log_probs = {0, -120, -0.1f};
  o.advantages = {0, -1, 1};
  const Evaluated e = evaluate(o, {0, 3}, {0, -0.1f, -120});
  CHECK_EQ(e.gradients[1], 0.0);
  CHECK_EQ(e.gradients[2], 0.0);
  CHECK(std::isfinite(e.result.loss));
  CHECK_EQ(e.result.ratio_clamped, 2.0);
}

TEST(k3_far_out_is_bounded_and_pulls_back) {
  Objective o;
  o.policy.weight = 0;
  o.kl.weight = 1;
  o.policy_mask = {0, 1, 1};
  o.reference_log_probs = {0, -1, -61};
  const Evaluated e = evaluate(o, {0, 3}, {0, -61, -1});
  CHECK(std::isfinite(e.result.loss));
  CHECK(e.gradients[1] < 0);  // more probable under the reference: the loss falls as log-prob rises
  CHECK_NEAR(e.gradients[1], -std::expm1(20.0) / 2, 1);
  CHECK_NEAR(e.gradients[2], 0.5, 1e-9);
  CHECK_EQ(e.result.kl_clamped, 1.0);
  o.kl.max_value = 10;
  const Evaluated cut_off = evaluate(o, {0, 3}, {0, -61, -1});
  CHECK_EQ(cut_off.gradients[1], 0.0);
  CHECK_EQ(cut_off.gradients[2], 0.0);
  CHECK_EQ(cut_off.result.kl_loss, 10.0);
  CHECK_EQ(cut_off.result.kl_clamped, 2.0);
}

TEST(wrong_objectives_are_refused) {
  const auto refused = [](auto change, const char* part) {
    Objective o = three_sequences();
    o.kl.weight = o.distill.weight = o.cross_entropy.weight = 1;
    change(o);
    const std::string message = CHECK_ERROR(code::kInvalidArgument, ObjectiveSum(o, kOffsets));
    if (message.find(part) == std::string::npos) throw std::runtime_error("message: " + message);
  };
  refused([](Objective& o) { o.advantages.clear(); },
          "the policy term needs the column advantages");
  refused([](Objective& o) { o.advantages.pop_back(); }, "advantages has 8 entries, expected 9");
  refused([](Objective& o) { o.policy_mask[4] = 1; },
          "policyMask is set at sequence 1, position 0");
  refused([](Objective& o) { o.distill_mask[0] = 1; },
          "distillMask is set at sequence 0, position 0");
  refused([](Objective& o) { o.weights[7] = 1; }, "weights is set at sequence 2, position 0");
  refused([](Objective& o) { o.distill_mask[5] = 1; }, "where policyMask is not");
  refused([](Objective& o) { o.old_log_probs[2] = NAN; },
          "oldLogProbs is nan at sequence 0, position 2");
  refused([](Objective& o) { o.teacher_log_probs[6] = -INFINITY; }, "teacherLogProbs is -inf");
  refused([](Objective& o) { o.reference_log_probs[6] = NAN; }, "referenceLogProbs");
  refused([](Objective& o) { o.policy.clip_low = 1.5f; }, "policy.clipLow");
  refused([](Objective& o) { o.policy.dual_clip = 0.5f; }, "policy.dualClip");
  refused([](Objective& o) { o.distill.clamp_low = 2; }, "distill.clamp[0]");
  refused([](Objective& o) { o.distill.clamp_low = NAN; }, "distill.clamp[0]");
  refused([](Objective& o) { o.policy.aggregation = Aggregation::fixed_length; },
          "policy.fixedLength");
  refused([](Objective& o) { o.total_policy_tokens = -1; }, "totals.policyTokens");
  refused([](Objective& o) { o.weights = {0, -1, 0, 0, 0, 0, 0, 0, 0}; }, "weights add up to");
  Objective unmasked = three_sequences();
  unmasked.old_log_probs[0] = unmasked.advantages[4] = NAN;  // outside the mask nobody looks
  validate(unmasked, kOffsets);
}

}  // namespace hindsearch
