#include "native/model/scored_tokens.h"

#include <cmath>
#include <string>

#include "native/core/error.h"

namespace hindsearch {

HeadScores score_tokens(const Network& network, const float* x, const ScoredTokens& scored,
                        float temperature, bool entropies, const char* call,
                        const CancelFlag* cancel) {
  HeadScores scores = head_forward(network, x, scored.rows, temperature, entropies, call, cancel);
  for (std::size_t i = 0; i < scores.log_probs.size(); ++i) {
    if (std::isfinite(scores.log_probs[i])) continue;
    throw Error(code::kNonFinite,
                std::string(call) + ": the log-prob of the token at sequence " +
                    std::to_string(scored.places[i].sequence) + ", position " +
                    std::to_string(scored.places[i].position) + " is " +
                    std::to_string(scores.log_probs[i]) +
                    "; weights have become infinite or NaN, or overflow in the pass");
  }
  return scores;
}

}  // namespace hindsearch
