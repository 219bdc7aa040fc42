// The objective against numbers of verl, Search-R1 and the CS336 course (shared/data/golden).
#include <algorithm>
#include <cmath>
#include <string>

#include "native/objective/objective.h"
#include "native/test/json.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using testing::Json;

// A table, a row a sequence, as packed columns with one prompt token before each row.
class Table {
 public:
  explicit Table(const Json& rows) : width_(rows[0].size()) {
    for (std::size_t b = 0; b <= rows.size(); ++b) {
      offsets.push_back(static_cast<std::int64_t>(b * (width_ + 1)));
    }
  }
  // A value a token, or one for all of a row.
  std::vector<float> column(const Json& rows) const {
    std::vector<float> values;
    for (const Json& row : rows.items()) {
      values.push_back(0);
      for (std::size_t t = 0; t < width_; ++t) {
        values.push_back(static_cast<float>(row[row.size() == 1 ? 0 : t].number()));
      }
    }
    return values;
  }
  std::vector<std::uint8_t> mask(const Json& rows) const {
    const std::vector<float> values = column(rows);
    return {values.begin(), values.end()};
  }
  std::vector<std::uint8_t> full_mask() const {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(offsets.back()), 1);
    for (const std::int64_t first : offsets) {
      if (first < offsets.back()) values[static_cast<std::size_t>(first)] = 0;
    }
    return values;
  }

  std::vector<std::int64_t> offsets;

 private:
  std::size_t width_;
};

struct Evaluated {
  ObjectiveResult result;
  std::vector<float> gradients;
};
Evaluated evaluate(const Objective& o, const Table& table, const std::vector<float>& log_probs) {
  ObjectiveSum sum(o, table.offsets);
  Evaluated e;
  for (std::size_t t = 0; t < log_probs.size(); ++t) {
    const auto i = static_cast<std::int64_t>(t);
    e.gradients.push_back(sum.scored(i) ? static_cast<float>(sum.add(i, log_probs[t])) : 0);
  }
  e.result = sum.result();
  return e;
}

// Sets the aggregation that verl calls `mode`; `width` is the padded one.
void set_mode(Objective& o, const std::string& mode, float width, double sequences) {
  if (mode == "token-sum") {
    o.total_policy_tokens = 1;
  } else if (mode == "seq-mean-token-mean") {
    o.policy.aggregation = Aggregation::sequence_mean_token_mean;
  } else if (mode == "seq-mean-token-sum") {
    o.policy.aggregation = Aggregation::sequence_sum;
  } else if (mode == "seq-mean-token-sum-norm") {
    o.policy.aggregation = Aggregation::fixed_length;
    o.policy.fixed_length = width;
    o.total_sequences = sequences;
  } else {
    CHECK_EQ(mode, "token-mean");
  }
}

void check_gradients(const Evaluated& e, const std::vector<float>& expected) {
  for (std::size_t t = 0; t < expected.size(); ++t) CHECK_NEAR(e.gradients[t], expected[t], 1e-7);
}

Json peer_numbers(const std::string& shared) {
  return Json::load(shared + "/data/golden/grpo_peer_numbers.json");
}

}  // namespace

// A loss of any value per token is the policy term at ratio 1 with its negative as advantage.
SHARED_TEST(peer_aggregations) {
  const Json numbers = peer_numbers(shared);
  const Json& golden = numbers["agg_loss"];
  const Table table(golden["loss"]);
  for (const auto& [mode, expected] : golden["verl"].members()) {
    Objective o;
    o.policy_mask = table.mask(golden["mask"]);
    o.advantages = table.column(golden["loss"]);
    for (float& a : o.advantages) a = -a;
    o.old_log_probs.assign(o.advantages.size(), -1);
    set_mode(o, mode, 4, 2);
    CHECK_NEAR(evaluate(o, table, o.old_log_probs).result.loss, expected.number(), 1e-6);
  }
}

SHARED_TEST(peer_policy_losses) {
  const Json numbers = peer_numbers(shared);
  const Json& golden = numbers["policy_loss"];
  const Table table(golden["old"]);
  Objective o;
  o.policy_mask = table.mask(golden["mask"]);
  o.old_log_probs = table.column(golden["old"]);
  o.advantages = table.column(golden["adv"]);
  const std::vector<float> log_probs = table.column(golden["new"]);
  for (const Json& verl : golden["verl"].items()) {
    Objective variant = o;
    variant.policy.clip_low = static_cast<float>(verl["clip_low"].number());
    variant.policy.clip_high = static_cast<float>(verl["clip_high"].number());
    variant.policy.dual_clip = static_cast<float>(verl["clip_ratio_c"].number());
    set_mode(variant, verl["mode"].string(), 4, 2);
    const Evaluated e = evaluate(variant, table, log_probs);
    CHECK_NEAR(e.result.loss, verl["loss"].number(), 1e-6);
    check_gradients(e, table.column(verl["grad"]));
    CHECK_NEAR(e.result.clip_fraction_low + e.result.clip_fraction_high, verl["clipfrac"].number(),
               1e-6);
    CHECK_NEAR(e.result.dual_clip_fraction, verl["clipfrac_lower"].number(), 1e-6);
  }
  const Evaluated e = evaluate(o, table, log_probs);
  CHECK_NEAR(e.result.loss, golden["search_r1"]["loss"].number(), 2e-6);
  check_gradients(e, table.column(golden["search_r1"]["grad"]));
}

SHARED_TEST(peer_kl_estimators) {
  const Json numbers = peer_numbers(shared);
  const Json& golden = numbers["kl"];
  const auto check = [&](KlEstimator estimator, const Json& values, const Json* gradients) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      Objective o;
      o.policy.weight = 0;
      o.kl = {1, estimator, 10};
      o.policy_mask = {0, 1};
      o.reference_log_probs = {0, static_cast<float>(golden["ref_logprob"][i].number())};
      const std::vector<std::int64_t> offsets = {0, 2};
      ObjectiveSum sum(o, offsets);
      const double gradient = sum.add(1, static_cast<float>(golden["logprob"][i].number()));
      const double scale = std::max(1.0, std::abs(values[i].number()));
      CHECK_NEAR(sum.result().kl_loss, values[i].number(), 1e-6 * scale);
      if (gradients && i < gradients->size()) {
        CHECK_NEAR(gradient, (*gradients)[i].number(), 1e-6);
      }
    }
  };
  check(KlEstimator::k1, golden["verl"]["k1"], nullptr);
  check(KlEstimator::k2, golden["verl"]["k2"], &golden["verl_k3plus_grad_first6"]);
  check(KlEstimator::k3, golden["verl"]["k3"], &golden["verl_k3_grad_first6"]);
  check(KlEstimator::k1, golden["search_r1"]["kl"], nullptr);
  check(KlEstimator::k2, golden["search_r1"]["mse"], nullptr);
  check(KlEstimator::k3, golden["search_r1"]["low_var_kl"], nullptr);
}

// Token losses, read off one at a time, and a micro-batch of half a batch with its gradient.
SHARED_TEST(course_clip_losses) {
  const Json golden = Json::load(shared + "/data/golden/cs336_numbers.json");
  const Json& inputs = golden["inputs"];
  const Table table(inputs["policy_log_probs"]);
  Objective o;
  o.old_log_probs = table.column(inputs["old_log_probs"]);
  o.advantages = table.column(inputs["advantages"]);
  const std::vector<float> log_probs = table.column(inputs["policy_log_probs"]);
  for (const auto& [range, key] :
       {std::pair{0.1f, "grpo_clip_loss_0.1"}, std::pair{0.5f, "grpo_clip_loss_0.5"},
        std::pair{10.0f, "grpo_clip_loss_10"}}) {
    // A lower bound of 1 - 10 bounds no ratio, as 0 does not.
    o.policy.clip_low = std::min(range, 1.0f);
    o.policy.clip_high = range;
    const std::vector<float> expected = table.column(golden["expected"][key]);
    for (std::size_t t = 0; t < expected.size(); ++t) {
      if (!table.full_mask()[t]) continue;
      o.policy_mask.assign(expected.size(), 0);
      o.policy_mask[t] = 1;
      CHECK_NEAR(evaluate(o, table, log_probs).result.loss, expected[t], 1e-7);
    }
  }
  const Json& micro = golden["expected"]["microbatch"];
  o.policy.clip_low = o.policy.clip_high = static_cast<float>(micro["cliprange"].number());
  o.policy.aggregation = Aggregation::sequence_mean_token_mean;
  o.policy_mask = table.mask(inputs["response_mask"]);
  o.total_policy_sequences = 2 * micro["gradient_accumulation_steps"].number();
  const Evaluated e = evaluate(o, table, log_probs);
  CHECK_NEAR(e.result.loss, micro["loss"].number(), 1e-7);
  check_gradients(e, table.column(micro["grad"]));
}

// The policy gradient without a ratio is the cross-entropy term with rewards as weights.
SHARED_TEST(course_policy_gradients) {
  const Json golden = Json::load(shared + "/data/golden/cs336_numbers.json");
  const Json& inputs = golden["inputs"];
  const Table table(inputs["policy_log_probs"]);
  const std::vector<float> log_probs = table.column(inputs["policy_log_probs"]);
  for (const auto& [rewards, key] :
       {std::pair{"rewards", "naive_pg"}, std::pair{"advantages", "reinforce_with_baseline"}}) {
    const std::vector<float> weights = table.column(inputs[rewards]);
    const std::vector<float> expected = table.column(golden["expected"][key]);
    for (std::size_t t = 0; t < expected.size(); ++t) {
      if (!table.full_mask()[t]) continue;
      Objective o;
      o.policy.weight = 0;
      o.cross_entropy.weight = 1;
      o.total_weight = 1;
      o.weights.assign(expected.size(), 0);
      o.weights[t] = weights[t];
      CHECK_NEAR(evaluate(o, table, log_probs).result.loss, expected[t], 1e-6);
    }
  }
}

}  // namespace hindsearch
