// The objective against shared/golden/grads/units and shared/golden/scalars.
#include <algorithm>
#include <cmath>
#include <utility>

#include "native/test/golden_losses.h"
#include "native/test/json.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using testing::GoldenColumns;
using testing::Json;

// Rows of a table as sequences, each with one prompt token before its real tokens.
GoldenColumns read_columns(const Json& inputs) {
  GoldenColumns c;
  c.offsets = {0};
  for (std::size_t b = 0; b < inputs["real_tokens"].size(); ++b) {
    const auto add = [&](std::vector<float>& column, const char* key) {
      column.push_back(0);
      for (std::size_t t = 0; t < inputs["real_tokens"][b].size(); ++t) {
        if (inputs["real_tokens"][b][t].number() == 0) continue;
        const Json& row = inputs[key][b];
        column.push_back(static_cast<float>(row.is_array() ? row[t].number() : row.number()));
      }
    };
    std::vector<float> response, distill;
    add(response, "response_mask");
    add(distill, "distill_mask");
    c.response.insert(c.response.end(), response.begin(), response.end());
    c.distill.insert(c.distill.end(), distill.begin(), distill.end());
    add(c.advantage, "advantage");
    add(c.advantage_nostd, "advantage_nostd");
    add(c.old_log_probs, "old_logp");
    add(c.reference, "ref_logp");
    add(c.rollout, "rollout_logp");
    add(c.teacher, "teacher_logp");
    add(c.student, "logp");
    c.offsets.push_back(static_cast<std::int64_t>(c.tokens()));
  }
  c.padded_width = static_cast<float>(inputs["real_tokens"][0].size());
  return c;
}

std::vector<double> read_gradients(const Json& inputs, const Json& d_logp) {
  std::vector<double> gradients;
  for (std::size_t b = 0; b < d_logp.size(); ++b) {
    gradients.push_back(0);
    for (std::size_t t = 0; t < d_logp[b].size(); ++t) {
      if (inputs["real_tokens"][b][t].number() != 0) gradients.push_back(d_logp[b][t].number());
    }
  }
  return gradients;
}

void check_case(const Json& inputs, const GoldenColumns& columns, const Json& golden,
                bool finite_only) {
  const std::string& id = golden["id"].string();
  const testing::GoldenLoss loss = testing::golden_loss(id, columns);
  ObjectiveSum sum(loss.objective, columns.offsets);
  const std::vector<double> expected = read_gradients(inputs, golden["d_logp"]);
  std::vector<double> actual(expected.size());
  for (std::size_t t = 0; t < actual.size(); ++t) {
    const auto i = static_cast<std::int64_t>(t);
    if (sum.scored(i)) actual[t] = sum.add(i, columns.student[t]);
  }
  const ObjectiveResult result = sum.result();
  CHECK(std::isfinite(result.loss));
  CHECK(std::all_of(actual.begin(), actual.end(), [](double g) { return std::isfinite(g); }));
  if (finite_only) return;
  double largest = 0;
  for (const double g : expected) largest = std::max(largest, std::abs(g));
  try {
    CHECK_NEAR(result.loss, golden["loss"].number(),
               2e-6 * std::max(1.0, std::abs(golden["loss"].number())));
    for (std::size_t t = 0; t < actual.size(); ++t) {
      CHECK_NEAR(actual[t], expected[t], 2e-6 * largest);
    }
    if (id.starts_with("grpo/verl") && golden["metrics"].has("actor/pg_clipfrac")) {
      const Json& metrics = golden["metrics"];
      CHECK_NEAR(result.clip_fraction_low + result.clip_fraction_high,
                 metrics["actor/pg_clipfrac"].number(), 1e-6);
      CHECK_NEAR(result.dual_clip_fraction, metrics["actor/pg_clipfrac_lower"].number(), 1e-6);
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(id + ": " + error.what());
  }
}

// In the table of log ratios up to 30 these peers let exp(30) through, and so does a k3 without
// max_value; we clamp at 20 (traps 7 and 8 of the golden README). The results must still be finite.
bool clamped_differently(const std::string& id) {
  return id.starts_with("grpo/trl/") || id.starts_with("tis/trl/") ||
         id == "distill/tinker_importance_sampling";
}

}  // namespace

SHARED_TEST(golden_policy_tables) {
  const Json tables = Json::load(shared + "/golden/grads/units/policy_tables.json");
  for (const Json& table : tables["tables"].items()) {
    const bool extreme = table["table"].string() == "extreme";
    GoldenColumns columns = read_columns(table["inputs"]);
    columns.off_policy_threshold = tables["hyper_parameters"]["opsm"].number();
    for (const Json& golden : table["cases"].items()) {
      const std::string& id = golden["id"].string();
      if (!testing::has_golden_loss(id)) {
        CHECK(testing::golden_losses_left_out().contains(id));
      } else {
        check_case(table["inputs"], columns, golden, extreme && clamped_differently(id));
      }
    }
  }
}

// Value and derivative of the KL estimators for log ratios up to +-150, against verl's k1 and k2
// and, where no exponent is clamped, TRL's k3.
SHARED_TEST(golden_kl_estimators) {
  const Json tables = Json::load(shared + "/golden/scalars/kl_estimators.json");
  const std::vector<std::pair<KlEstimator, const char*>> estimators = {
      {KlEstimator::k1, "verl.kl"},
      {KlEstimator::k2, "verl.mse"},
      {KlEstimator::k3, "trl.k3 (statement of _compute_loss)"}};
  for (const Json& golden : tables["cases"].items()) {
    for (const auto& [estimator, key] : estimators) {
      Objective o;
      o.policy.weight = 0;
      o.kl = {1, estimator};
      o.policy_mask = {0, 1};
      o.reference_log_probs = {0, static_cast<float>(golden["ref"].number())};
      const std::vector<std::int64_t> offsets = {0, 2};
      ObjectiveSum sum(o, offsets);
      const double gradient = sum.add(1, static_cast<float>(golden["logp"].number()));
      const ObjectiveResult result = sum.result();
      const double x = golden["ref"].number() - golden["logp"].number();
      if (estimator == KlEstimator::k3 && x > 20) {
        CHECK_NEAR(gradient, -std::expm1(20), 1);
        CHECK_NEAR(result.kl_loss / (std::expm1(20) * (x - 19)), 1, 1e-6);
        CHECK_EQ(result.kl_clamped, 1);
        continue;
      }
      const Json& expected = golden[key]["f64"];
      CHECK_NEAR(result.kl_loss, expected[0].number(), 1e-6 * std::abs(expected[0].number()));
      CHECK_NEAR(gradient, expected[1].number(), 1e-6 * std::abs(expected[1].number()));
      CHECK_EQ(result.kl_clamped, 0);
    }
  }
}

}  // namespace hindsearch
