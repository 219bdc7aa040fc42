// Sampling's filters applied to one row.
#pragma once

#include <cstdint>
#include <vector>

#include "native/backend/cpu/kernels.h"

namespace hindsearch::cpu {

struct Draw {
  Token token;
  float log_prob;
};

// Whether a filter can take anything away.
bool filters(const Sampling& sampling, std::int64_t vocabulary);

// The first token whose cumulative probability after the filters is above `uniform`; token 0 with
// NaN where there is no distribution. Temperature above 0.
Draw draw_filtered(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
                   const Sampling& sampling, double uniform);

// hindsearch::filter_probabilities with the kernels of one instruction set.
std::vector<float> filter_probabilities(const RowKernels& kernels, const float* logits,
                                        std::int64_t vocabulary, const Sampling& sampling);

}  // namespace hindsearch::cpu
