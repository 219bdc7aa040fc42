// AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) with float32 moments and clipping by global
// norm.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "native/backend/backend.h"

namespace hindsearch {

struct OptimizerOptions {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.01f;
  float max_gradient_norm = 1;  // 0: no clipping

  // Throws Error(INVALID_ARGUMENT) naming the option.
  void validate() const;
};

struct OptimizerResult {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite: weights and moments untouched
  std::int64_t step = 0;     // updates made so far
};

// Euclidean norm of all n gradients together.
double gradient_norm(Backend& backend, const float* gradients, std::int64_t n);

class AdamW {
 public:
  // Updates n weights. `norm` is the finite norm of the gradients, from gradient_norm.
  void update(Backend& backend, const OptimizerOptions& options, double norm,
              const float* gradients, float* weights, std::int64_t n);

  std::int64_t step() const { return step_; }
  // Throws Error(INVALID_ARGUMENT) if negative.
  void set_step(std::int64_t step);
  // [n]; null, which stands for zeros, before the first update.
  const Buffer* first_moments() const { return first_.get(); }
  const Buffer* second_moments() const { return second_.get(); }
  void set_first_moments(std::unique_ptr<Buffer> moments) { first_ = std::move(moments); }
  void set_second_moments(std::unique_ptr<Buffer> moments) { second_ = std::move(moments); }
  std::size_t bytes() const;

 private:
  std::int64_t step_ = 0;
  std::unique_ptr<Buffer> first_, second_;
};

}  // namespace hindsearch
