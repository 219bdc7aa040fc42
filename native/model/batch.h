// Packed sequences and their cut into micro-batches.
#pragma once

#include <cstdint>
#include <span>
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

// What a pass runs of a sequence: its first `rows` tokens, one or more. Rows behind the last one
// whose prediction is looked at would be run for nothing.
struct Prefix {
  std::int64_t sequence;
  std::int32_t rows;
};
// Prefixes in order, together at most `tokens` rows; a longer one goes alone.
std::vector<std::span<const Prefix>> micro_batches(std::span<const Prefix> prefixes,
                                                   std::int64_t tokens);

// The rows of one micro-batch: tokens, positions, and pages for the keys and values of one layer.
class Batch {
 public:
  Batch(const PackedSequences& packed, std::span<const Prefix> prefixes);
  Batch(const Batch&) = delete;  // sequences point into it
  Batch& operator=(const Batch&) = delete;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int32_t page_count() const { return static_cast<std::int32_t>(pages_.size()); }
  std::int32_t longest() const { return longest_; }

  std::span<const Prefix> prefixes;
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<SequenceRows> sequences;  // sequences[i] are the rows of prefixes[i]

 private:
  std::vector<std::int32_t> pages_;
  std::int32_t longest_ = 0;
};

}  // namespace hindsearch
