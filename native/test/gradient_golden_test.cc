// Losses and gradients of every parameter against shared/golden/grads, with the tolerances of
// shared/golden/README.md.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "native/test/bf16_exceptions.h"
#include "native/test/checkpoint.h"
#include "native/test/golden_losses.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using testing::GoldenArrays;
using testing::GoldenColumns;
using testing::Json;

constexpr const char* kModels[] = {"qwen2_tied", "qwen2_untied_sharded", "qwen3_tied_bf16",
                                   "llama3_untied"};

struct GoldenBatch {
  PackedSequences packed;
  GoldenColumns columns;
};

// The teacher's log-probs of the response come with the batch; those that no loss uses are 0.
GoldenBatch read_batch(const Json& json, const GoldenArrays& arrays) {
  GoldenBatch batch;
  GoldenColumns& c = batch.columns;
  batch.packed.offsets = c.offsets = {0};
  for (const Json& sequence : json["sequences"].items()) {
    const auto prompt = static_cast<std::size_t>(sequence["prompt_len"].number());
    const std::vector<Token> tokens = sequence["token_ids"].numbers<Token>();
    const auto add = [&](std::vector<float>& column, const std::vector<float>& response) {
      column.insert(column.end(), prompt, 0);
      column.insert(column.end(), response.begin(), response.end());
    };
    const auto add_mask = [&](std::vector<std::uint8_t>& mask, const char* key) {
      const auto response = sequence[key].numbers<std::uint8_t>();
      mask.insert(mask.end(), prompt, 0);
      mask.insert(mask.end(), response.begin(), response.end());
    };
    const std::size_t n = tokens.size() - prompt;
    add_mask(c.response, "response_mask");
    add_mask(c.distill, "distill_mask");
    add(c.advantage, std::vector<float>(n, static_cast<float>(sequence["advantage"].number())));
    add(c.advantage_nostd,
        std::vector<float>(n, static_cast<float>(sequence["advantage_nostd"].number())));
    add(c.old_log_probs, sequence["old_logp"].numbers<float>());
    add(c.reference, sequence["ref_logp"].numbers<float>());
    add(c.rollout, sequence["rollout_logp"].numbers<float>());
    add(c.old_temperature, sequence["old_logp_temperature"].numbers<float>());
    add(c.student, arrays[sequence["student_logp"].string()]);
    add(c.teacher, sequence.has("teacher") ? arrays[sequence["teacher"]["teacher_logp"].string()]
                                           : std::vector<float>(n));
    batch.packed.tokens.insert(batch.packed.tokens.end(), tokens.begin(), tokens.end());
    batch.packed.offsets.push_back(static_cast<std::int64_t>(batch.packed.tokens.size()));
    c.offsets = batch.packed.offsets;
  }
  c.off_policy_threshold = json["hyper_parameters"]["opsm"].number();
  c.padded_width = static_cast<float>(json["padded_response_width_T"].number());
  return batch;
}

// Sign i of projection k, as the golden README defines it.
double sign(std::uint64_t i, std::uint64_t k) {
  std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15 + (k + 1) * 0xD1B54A32D192ED03;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z = z ^ (z >> 31);
  return z >> 63 ? -1 : 1;
}

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  return std::sqrt(sum);
}

double distance(const std::vector<float>& x, const std::vector<float>& y) {
  CHECK_EQ(x.size(), y.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  return std::sqrt(sum);
}

// Checks the projections, whose errors are each about as large as |gradient - expected|, and the
// entries given; returns an estimate of |gradient - expected|.
double large_tensor_error(const std::vector<float>& gradient, const Json& large, const Json& index,
                          double tolerance) {
  double squares = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    double projection = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) projection += sign(i, k) * gradient[i];
    const double error = projection - large["proj"][k].number();
    CHECK_NEAR(error, 0, tolerance);
    squares += error * error / 4;
  }
  const auto check_entry = [&](std::size_t i, double expected) {
    CHECK_NEAR(gradient[i], expected, tolerance);
  };
  for (std::size_t i = 0; i < index.size(); ++i) {
    check_entry(static_cast<std::size_t>(index[i].number()), large["at_sample"][i].number());
  }
  check_entry(static_cast<std::size_t>(large["max_abs"][0].number()), large["max_abs"][1].number());
  CHECK_NEAR(norm(gradient), large["norm"].number(), tolerance);
  return std::sqrt(squares);
}

// Concatenated arrays cut by parameter.
std::map<std::string, std::vector<float>> cut(const Model& model, const std::vector<float>& all,
                                              const Json& order) {
  std::map<std::string, std::vector<float>> result;
  auto next = all.begin();
  for (const Json& name : order.items()) {
    const auto size = model.layout().find(name.string())->size;
    result[name.string()].assign(next, next + size);
    next += size;
  }
  CHECK(next == all.end());
  return result;
}

// Those of gradients are relative.
struct Tolerances {
  double loss, all;
  std::function<double(const std::string& parameter)> tensor;
};

Tolerances tolerances(const std::string& model, const Json& golden, bool bf16) {
  if (!bf16) {
    const double loss = std::abs(golden["loss"].number());
    return {2e-5 * std::max(1.0, loss), 1e-4, [](const std::string&) { return 1e-3; }};
  }
  const Json& observed = golden["observed_peer_bf16"];
  const double loss = 3 * observed["loss_abs_err"].number() + 1e-3;
  const double tensor = std::max(0.15, 2.5 * observed["grad_worst_tensor_rel_err"].number());
  const auto allowance = [&model, id = golden["id"].string()](const std::string& figure,
                                                              double limit) {
    return testing::bf16_allowance(model, id, figure, limit);
  };
  return {allowance("loss", loss), std::max(0.1, 2.5 * observed["grad_global_rel_err"].number()),
          [allowance, tensor](const std::string& name) { return allowance(name, tensor); }};
}

void check_gradients(const Model& model, const Json& expected, const GoldenArrays& arrays,
                     const Json& golden, const Tolerances& tolerance) {
  const double global = golden["grad_global_norm"].number();
  const auto small =
      cut(model, arrays[golden["small_full"].string()], expected["small_full_order"]);
  const auto allowed = [&](const std::string& name, double size) {
    return tolerance.tensor(name) * std::max(size, 1e-3 * global);
  };
  double squares = 0;
  for (const Parameter& parameter : model.layout().parameters()) {
    const std::vector<float> gradient = model.gradient(parameter.name);
    double error;
    if (small.contains(parameter.name)) {
      error = distance(gradient, small.at(parameter.name));
      CHECK_NEAR(error, 0, allowed(parameter.name, norm(small.at(parameter.name))));
    } else {
      const Json& large = golden["large"][parameter.name];
      error = large_tensor_error(gradient, large, expected["sample_index"][parameter.name],
                                 allowed(parameter.name, large["norm"].number()));
    }
    squares += error * error;
  }
  CHECK_NEAR(std::sqrt(squares), 0, tolerance.all * global);

  if (!golden.has("full")) return;
  squares = 0;
  for (const auto& [name, full] :
       cut(model, arrays[golden["full"].string()], expected["full_order"])) {
    const double error = distance(model.gradient(name), full);
    CHECK_NEAR(error, 0, allowed(name, norm(full)));
    squares += error * error;
  }
  CHECK_NEAR(std::sqrt(squares), 0, tolerance.all * global);
}

void check_model(const std::string& shared, const std::string& name, ComputeType compute) {
  const std::string folder = shared + "/golden/grads/" + name;
  const bool bf16 = compute == ComputeType::bf16;
  const Json expected = Json::load(folder + "/expected.json");
  const GoldenArrays arrays(folder, expected);
  const GoldenBatch batch = read_batch(Json::load(folder + "/batch.json"), arrays);
  const auto model = testing::load_model(shared + "/golden/models/" + name, compute);
  for (const Json& golden : expected["cases"].items()) {
    const std::string& id = golden["id"].string();
    CHECK(testing::has_golden_loss(id) != testing::golden_losses_left_out().contains(id));
    if (!testing::has_golden_loss(id)) continue;
    try {
      const Tolerances tolerance = tolerances(name, golden, bf16);
      const testing::GoldenLoss loss = testing::golden_loss(id, batch.columns);
      TrainOptions options;
      options.temperature = loss.temperature;
      options.micro_batch_tokens = 64;  // several micro-batches
      model->zero_gradients();
      const ObjectiveResult result = model->forward_backward(batch.packed, loss.objective, options);
      CHECK_NEAR(result.loss, golden["loss"].number(), tolerance.loss);
      check_gradients(*model, expected, arrays, golden, tolerance);
    } catch (const std::exception& error) {
      throw std::runtime_error(folder + " " + id + ": " + error.what());
    }
  }
}

// The teacher is the same model with the critique in its context.
void check_teacher(const std::string& folder, Model& model) {
  const GoldenArrays arrays(folder, Json::load(folder + "/expected.json"));
  const Json batch = Json::load(folder + "/batch.json");
  for (const Json& sequence : batch["sequences"].items()) {
    if (!sequence.has("teacher")) continue;
    const Json& teacher = sequence["teacher"];
    const std::vector<float> expected = arrays[teacher["teacher_logp"].string()];
    const ScoreResult scores =
        model.score(testing::pack({teacher["token_ids"].numbers<Token>()}), {1, {1}, false});
    for (std::size_t t = 0; t < expected.size(); ++t) {
      const auto row = static_cast<std::size_t>(teacher["alignment_response"][t][1].number());
      CHECK_NEAR(scores.log_probs[row + 1], expected[t], 2e-4);
    }
  }
}

}  // namespace

SHARED_TEST(golden_gradients_f32) {
  for (const char* name : kModels) check_model(shared, name, ComputeType::f32);
}

SHARED_TEST(golden_gradients_bf16) {
  for (const char* name : kModels) check_model(shared, name, ComputeType::bf16);
}

SHARED_TEST(golden_teacher_log_probs) {
  for (const std::string name : kModels) {
    check_teacher(shared + "/golden/grads/" + name,
                  *testing::load_model(shared + "/golden/models/" + name, ComputeType::f32));
  }
}

}  // namespace hindsearch
