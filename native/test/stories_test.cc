// A real trained model, shared/data/model/stories260k, against its reference numbers.
#include <algorithm>
#include <cmath>

#include "native/test/cached_run.h"
#include "native/test/checkpoint.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using testing::Json;

struct Stories {
  explicit Stories(const std::string& shared, ComputeType compute = ComputeType::f32)
      : folder(shared + "/data/model/stories260k"),
        reference(Json::load(folder + "/reference.json")),
        model(testing::load_model(folder, compute)) {}
  std::string folder;
  Json reference;
  std::shared_ptr<Model> model;
};

Token argmax(const std::vector<float>& logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

SHARED_TEST(the_story_is_told_in_f32) {
  const Stories stories(shared);
  const Json& greedy = stories.reference["greedy"];
  testing::CachedRun run(*stories.model, 1, 256);
  std::vector<Token> next = greedy["prompt_ids"].numbers<Token>();
  std::vector<Token> story = next;
  while (story.size() < greedy["ids"].size()) {
    next = {argmax(run.append({0}, {next}))};
    story.push_back(next[0]);
  }
  CHECK(story == greedy["ids"].numbers<Token>());
}

// In bf16 a near tie may fall the other way, so the published story is read along: every token of
// it must be the likeliest up to the rounding of a logit of about 16.
SHARED_TEST(the_story_is_likeliest_in_bf16) {
  const Stories stories(shared, ComputeType::bf16);
  const auto story = stories.reference["greedy"]["ids"].numbers<Token>();
  const std::vector<float> logits = stories.model->logits(testing::pack({story}));
  for (std::size_t t = 0; t + 1 < story.size(); ++t) {
    const auto row = logits.begin() + static_cast<std::int64_t>(t) * 512;
    CHECK_NEAR(row[story[t + 1]], *std::max_element(row, row + 512), 0.125);
  }
}

SHARED_TEST(logits_of_the_first_positions) {
  const Stories stories(shared);
  const Json& expected = stories.reference["logits_first_positions"];
  const std::vector<float> logits =
      stories.model->logits(testing::pack({expected["ids"].numbers<Token>()}));
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t i = 0; i < 5; ++i) {
      const auto id = static_cast<std::size_t>(expected["top5_ids"][row][i].number());
      CHECK_NEAR(logits[row * 512 + id], expected["top5_logits"][row][i].number(), 1e-4);
    }
  }
  for (std::size_t i = 0; i < expected["row7_all"].size(); ++i) {
    CHECK_NEAR(logits[7 * 512 + i], expected["row7_all"][i].number(), 1e-4);
  }
}

SHARED_TEST(losses_gradients_and_one_adamw_step) {
  const Stories stories(shared);
  const Json& expected = stories.reference["teacher_forced"];
  Model& model = *stories.model;
  const PackedSequences packed = testing::pack({expected["ids"].numbers<Token>()});
  Objective objective;
  objective.policy.weight = 0;
  objective.cross_entropy.weight = 1;
  objective.weights.assign(packed.tokens.size(), 1);
  objective.weights[0] = 0;
  const ObjectiveResult result = model.forward_backward(packed, objective, {});
  for (std::size_t t = 0; t < expected["nll"].size(); ++t) {
    CHECK_NEAR(-result.log_probs[t + 1], expected["nll"][t].number(), 2e-5);
  }
  CHECK_NEAR(result.loss, expected["loss"].number(), 2e-6);
  CHECK_NEAR(model.gradient_norm() / expected["grad_norm"].number(), 1, 1e-5);
  CHECK_EQ(expected["grads"].members().size(), model.layout().parameters().size());
  for (const auto& [name, golden] : expected["grads"].members()) {
    const std::vector<float> gradient = model.gradient(name);
    double squares = 0;
    for (const float g : gradient) squares += double{g} * g;
    const double norm = golden["l2"].number();
    CHECK_NEAR(std::sqrt(squares) / norm, 1, 1e-4);
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK_NEAR(gradient[i], golden["first8"][i].number(), 1e-4 * norm);
    }
  }
  const Json& adamw = expected["adamw"];
  OptimizerOptions options;
  options.learning_rate = static_cast<float>(adamw["lr"].number());
  options.weight_decay = static_cast<float>(adamw["weight_decay"].number());
  options.max_gradient_norm = static_cast<float>(adamw["clip_grad_norm"].number());
  model.step(options);
  CHECK_NEAR(model.forward_backward(packed, objective, {}).loss,
             adamw["loss_after_one_step"].number(), 2e-5);
}

}  // namespace hindsearch
