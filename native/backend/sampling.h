// The filters of Sampling as a pure function, for the sampler and for whoever wants to look at it.
#pragma once

#include <cstdint>
#include <vector>

#include "native/backend/backend.h"

namespace hindsearch {

// Probabilities [vocabulary] after temperature, top-k, top-p and min-p, each on the result of the
// one before, renormalised. top-k keeps every logit equal to the k-th largest. top-p drops, from
// the smallest probability up, all whose cumulative sum is at most 1 - top_p, but never the
// largest; among equal ones the higher ids go first. min-p keeps what is at least min_p times the
// largest. Temperature 0 puts everything on the first of the largest. All NaN when a logit is NaN
// or +inf, or all are -inf.
std::vector<float> filter_probabilities(const float* logits, std::int64_t vocabulary,
                                        const Sampling& sampling);

}  // namespace hindsearch
