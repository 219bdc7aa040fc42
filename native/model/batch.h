// Packed sequences and their cut into micro-batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/config.h"

namespace hindsearch {

// B sequences packed one after the other: sequence b is tokens[offsets[b] .. offsets[b + 1]).
struct PackedSequences {
  std::vector<Token> tokens;
  std::vector<std::int64_t> offsets;  // B + 1, from 0
};

// Throws Error(INVALID_ARGUMENT) naming the call, the sequence and the position: offsets that do
// not fit, an empty sequence, one longer than the model's positions, a token outside the
// vocabulary.
void validate(const PackedSequences& sequences, const ModelConfig& config, const char* call);
void check_token(Token token, const ModelConfig& config, const char* call, std::int64_t sequence,
                 std::int64_t position);

// Sequences [begin, end) of a packed batch.
struct SequenceRange {
  std::int64_t begin, end;
};
// Whole sequences in order, together at most `tokens` tokens; a longer one goes alone.
std::vector<SequenceRange> micro_batches(const PackedSequences& sequences, std::int64_t tokens);

// What a row's output is wanted for. The last token of a sequence predicts nothing, so scoring and
// training leave its row out.
enum class RowsWanted { all, all_but_last };

// The rows of one micro-batch: tokens, positions, and pages for the keys and values of one layer.
class Batch {
 public:
  Batch(const PackedSequences& sequences, SequenceRange range, RowsWanted wanted);

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int32_t page_count() const { return static_cast<std::int32_t>(pages_.size()); }
  std::int32_t longest() const { return longest_; }
  // Row that holds token t of the packed batch.
  std::int64_t row_of(std::int64_t sequence, std::int64_t position) const;

  SequenceRange range;
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<SequenceRows> sequences;  // those that have rows

 private:
  std::vector<std::int32_t> pages_;
  std::vector<std::int64_t> first_rows_;  // per sequence of the range
  std::int32_t longest_ = 0;
};

}  // namespace hindsearch
