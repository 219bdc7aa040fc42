// Final norm and vocabulary head over the rows that are scored.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/cancel.h"
#include "native/model/network.h"

namespace hindsearch {

// Rows of a pass, in ascending order, and the token that each must predict.
struct ScoredRows {
  std::vector<std::int32_t> rows;
  std::vector<Token> targets;

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
  void add(std::int64_t row, Token target) {
    rows.push_back(static_cast<std::int32_t>(row));
    targets.push_back(target);
  }
};

struct HeadScores {
  std::vector<float> log_probs;  // of the targets
  std::vector<float> log_sums;   // of logits / temperature, for backward
  std::vector<float> entropies;  // nats; empty if not asked for
};

// Final norm of x[n, C] for the head, in `hidden` [n, C]; inv_rms [n] may be null.
Operand final_norm(const Network& network, const float* x, std::int64_t n, float* hidden,
                   float* inv_rms);
// The same of these rows of x, which stay in `gathered` [n, C].
Operand gather_normed(const Network& network, const float* x, std::span<const std::int32_t> rows,
                      float* gathered, float* hidden, float* inv_rms);

// x[R, C] is the output of the last layer. Throws Error(ABORTED) naming the call.
HeadScores head_forward(const Network& network, const float* x, const ScoredRows& scored,
                        float temperature, bool entropies, const char* call,
                        const CancelFlag* cancel);

// Adds to d_x[R, C] and to `gradients`. g[i] = dL/dlogprob of scored row i; rows with g = 0 take no
// part. Returns whether there was any other. Throws Error(ABORTED) naming the call.
bool head_backward(const Network& network, const float* x, const ScoredRows& scored,
                   float temperature, const std::vector<float>& log_sums,
                   const std::vector<float>& g, float* d_x, float* gradients, const char* call,
                   const CancelFlag* cancel);

}  // namespace hindsearch
