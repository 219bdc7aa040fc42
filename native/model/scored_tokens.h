// The tokens of a micro-batch whose log-probs are wanted, and where they come from.
#pragma once

#include <cstdint>
#include <vector>

#include "native/model/batch.h"
#include "native/model/head.h"

namespace hindsearch {

// Where a token lies: in sequence `sequence` at `position`, in the packed batch at `token`.
struct SequenceToken {
  std::int64_t sequence, position, token;
};

struct ScoredTokens {
  ScoredRows rows;
  std::vector<SequenceToken> places;

  // Those tokens predicted by a row of the batch for which wanted(place) holds.
  template <class Wanted>
  ScoredTokens(const PackedSequences& packed, const Batch& batch, Wanted&& wanted) {
    for (std::size_t i = 0; i < batch.prefixes.size(); ++i) {
      const std::int64_t b = batch.prefixes[i].sequence;
      const std::int64_t begin = packed.offsets[static_cast<std::size_t>(b)];
      const std::int64_t end = packed.offsets[static_cast<std::size_t>(b) + 1];
      const SequenceRows& run = batch.sequences[i];
      for (std::int32_t row = 0; row < run.rows && begin + row + 1 < end; ++row) {
        const SequenceToken place{b, row + 1, begin + row + 1};
        if (!wanted(place)) continue;
        rows.add(run.first_row + row, packed.tokens[static_cast<std::size_t>(place.token)]);
        places.push_back(place);
      }
    }
  }
};

// head_forward for these tokens. Throws as it does, and Error(NON_FINITE) naming the call and the
// place of the first log-prob that is not a number.
HeadScores score_tokens(const Network& network, const float* x, const ScoredTokens& scored,
                        float temperature, bool entropies, const char* call,
                        const CancelFlag* cancel);

}  // namespace hindsearch
