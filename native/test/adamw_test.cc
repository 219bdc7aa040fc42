// AdamW against shared/golden/scalars/adamw.json.
#include "native/optim/adamw.h"

#include <cmath>
#include <memory>
#include <vector>

#include "native/test/json.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using testing::Json;

// Tensors of a case one after the other, as they lie in the arena.
std::vector<float> flatten(const Json& tensors) {
  std::vector<float> all;
  for (const Json& tensor : tensors.items()) {
    const std::vector<float> values = tensor.numbers<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

class DeviceTensor {
 public:
  DeviceTensor(Backend& backend, const std::vector<float>& values)
      : buffer_(backend.allocate(static_cast<std::int64_t>(values.size()))) {
    backend.upload(values.data(), buffer_->data(), buffer_->size());
  }
  float* data() { return buffer_->data(); }

 private:
  std::unique_ptr<Buffer> buffer_;
};

void check_case(Backend& backend, const Json& golden) {
  OptimizerOptions options;
  options.beta1 = static_cast<float>(golden["hyper"]["betas"][0].number());
  options.beta2 = static_cast<float>(golden["hyper"]["betas"][1].number());
  options.epsilon = static_cast<float>(golden["hyper"]["eps"].number());
  options.weight_decay = static_cast<float>(golden["hyper"]["weight_decay"].number());
  const Json& clip = golden["grad_clip_max_norm"];
  options.max_gradient_norm = clip.is_null() ? 0 : static_cast<float>(clip.number());
  const std::vector<float> initial = flatten(golden["param0"]);
  const auto n = static_cast<std::int64_t>(initial.size());
  DeviceTensor weights(backend, initial);
  AdamW optimizer;
  const bool tiny = golden["name"].string().starts_with("tiny gradients");
  for (std::size_t step = 0; step < golden["grads"].size(); ++step) {
    DeviceTensor gradients(backend, flatten(golden["grads"][step]));
    options.learning_rate = static_cast<float>(golden["lr_used"][step].number());
    optimizer.update(backend, options, gradient_norm(backend, gradients.data(), n),
                     gradients.data(), weights.data(), n);
    const Json& after = golden["f64"]["param_after_step"];
    if (!after.has(std::to_string(step + 1))) continue;
    const std::vector<float> expected = flatten(after[std::to_string(step + 1)]);
    std::vector<float> actual(expected.size());
    backend.download(weights.data(), actual.data(), n);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      CHECK_NEAR(actual[i], expected[i], (tiny ? 1e-5 : 2e-6) * std::abs(expected[i]) + 1e-8);
    }
  }
  CHECK_EQ(optimizer.step(), static_cast<std::int64_t>(golden["grads"].size()));
}

}  // namespace

SHARED_TEST(golden_adamw) {
  const Json table = Json::load(shared + "/golden/scalars/adamw.json");
  const auto backend = make_backend(ComputeType::f32);
  int checked = 0;
  for (const Json& golden : table["cases"].items()) {
    if (golden["decay_only_on_matrices"].boolean()) continue;  // here decay is for all parameters
    try {
      check_case(*backend, golden);
    } catch (const std::exception& error) {
      throw std::runtime_error(golden["name"].string() + ": " + error.what());
    }
    ++checked;
  }
  CHECK_EQ(checked, 8);
}

// Millions of weights: the update does not depend on how they are spread over threads, and equal
// weights with equal gradients stay equal.
TEST(adamw_treats_all_weights_alike) {
  const auto backend = make_backend(ComputeType::f32);
  const std::int64_t n = 3000017;
  DeviceTensor weights(*backend, std::vector<float>(n, 0.5f));
  DeviceTensor gradients(*backend, std::vector<float>(n, 0.25f));
  const double norm = gradient_norm(*backend, gradients.data(), n);
  CHECK_NEAR(norm, 0.25 * std::sqrt(static_cast<double>(n)), 1e-9);
  OptimizerOptions options;
  options.learning_rate = 0.125f;
  AdamW optimizer;
  optimizer.update(*backend, options, norm, gradients.data(), weights.data(), n);
  std::vector<float> actual(static_cast<std::size_t>(n));
  backend->download(weights.data(), actual.data(), n);
  CHECK_NEAR(actual[0], 0.5 * (1 - 0.125 * 0.01) - 0.125, 1e-4);
  for (const float w : actual) CHECK_EQ(w, actual[0]);
}

}  // namespace hindsearch
