#include "native/optim/adamw.h"

#include <cmath>
#include <string>

#include "native/core/error.h"

namespace hindsearch {
namespace {

void check(const char* option, float value, bool ok, const char* expected) {
  if (std::isfinite(value) && ok) return;
  throw Error(code::kInvalidArgument, std::string("optimizer: ") + option + " is " +
                                          std::to_string(value) + ", expected " + expected);
}

}  // namespace

void OptimizerOptions::validate() const {
  check("learning_rate", learning_rate, learning_rate >= 0, "0 or more");
  check("beta1", beta1, beta1 >= 0 && beta1 < 1, "0 or more and less than 1");
  check("beta2", beta2, beta2 >= 0 && beta2 < 1, "0 or more and less than 1");
  // 0 / 0 for a weight that has never had a gradient.
  check("epsilon", epsilon, epsilon > 0, "more than 0");
  check("weight_decay", weight_decay, weight_decay >= 0, "0 or more");
  check("max_gradient_norm", max_gradient_norm, max_gradient_norm >= 0, "0 (off) or more");
}

double gradient_norm(Backend& backend, const float* gradients, std::int64_t n) {
  return std::sqrt(backend.sum_of_squares(gradients, n));
}

void AdamW::update(Backend& backend, const OptimizerOptions& options, double norm,
                   const float* gradients, float* weights, std::int64_t n) {
  if (!first_) first_ = backend.allocate(n);
  if (!second_) second_ = backend.allocate(n);
  ++step_;  // after what can fail
  AdamWStep step;
  step.learning_rate = options.learning_rate;
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.epsilon = options.epsilon;
  step.weight_decay = options.weight_decay;
  step.step = step_;
  // The constant and the condition are those of torch.nn.utils.clip_grad_norm_.
  const double scale = options.max_gradient_norm / (norm + 1e-6);
  step.gradient_scale =
      options.max_gradient_norm > 0 && scale < 1 ? static_cast<float>(scale) : 1.0f;
  backend.adamw(weights, gradients, first_->data(), second_->data(), n, step);
}

void AdamW::set_step(std::int64_t step) {
  if (step < 0) {
    throw Error(code::kInvalidArgument,
                "optimizer: step is " + std::to_string(step) + ", expected 0 or more");
  }
  step_ = step;
}

std::size_t AdamW::bytes() const {
  const std::int64_t floats = (first_ ? first_->size() : 0) + (second_ ? second_->size() : 0);
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace hindsearch
