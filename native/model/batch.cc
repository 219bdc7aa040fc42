#include "native/model/batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "native/core/error.h"

namespace hindsearch {
namespace {

[[noreturn]] void refuse(const char* call, const std::string& message) {
  throw Error(code::kInvalidArgument, std::string(call) + ": " + message);
}

}  // namespace

void check_token(Token token, const ModelConfig& config, const char* call, std::int64_t sequence,
                 std::int64_t position) {
  if (token >= 0 && token < config.token_limit) return;
  refuse(call, "token " + std::to_string(token) + " of sequence " + std::to_string(sequence) +
                   ", position " + std::to_string(position) + " is outside the vocabulary [0, " +
                   std::to_string(config.token_limit) + ")");
}

void validate(const PackedSequences& sequences, const ModelConfig& config, const char* call) {
  const auto& [tokens, offsets] = sequences;
  if (offsets.empty() || offsets.front() != 0) refuse(call, "offsets must start with 0");
  if (offsets.back() != static_cast<std::int64_t>(tokens.size())) {
    refuse(call, "offsets end at " + std::to_string(offsets.back()) +
                     ", expected the number of tokens, " + std::to_string(tokens.size()));
  }
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const std::int64_t n = offsets[b + 1] - offsets[b];
    if (n <= 0 || offsets[b + 1] > offsets.back()) {
      refuse(call, "sequence " + std::to_string(b) + " spans offsets " +
                       std::to_string(offsets[b]) + " to " + std::to_string(offsets[b + 1]) +
                       "; expected at least one token within the batch");
    }
    if (n > config.max_positions) {
      refuse(call, "sequence " + std::to_string(b) + " has " + std::to_string(n) +
                       " tokens, the model's longest sequence has " +
                       std::to_string(config.max_positions));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      check_token(tokens[static_cast<std::size_t>(offsets[b] + i)], config, call,
                  static_cast<std::int64_t>(b), i);
    }
  }
}

std::vector<std::span<const Prefix>> micro_batches(std::span<const Prefix> prefixes,
                                                   std::int64_t tokens) {
  if (tokens < 1 || tokens > std::numeric_limits<std::int32_t>::max()) {
    refuse("micro_batch_tokens", "is " + std::to_string(tokens) + ", expected 1 to 2147483647");
  }
  std::vector<std::span<const Prefix>> parts;
  std::size_t begin = 0;
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    if (i > begin && filled + prefixes[i].rows > tokens) {
      parts.push_back(prefixes.subspan(begin, i - begin));
      begin = i;
      filled = 0;
    }
    filled += prefixes[i].rows;
  }
  if (begin < prefixes.size()) parts.push_back(prefixes.subspan(begin));
  return parts;
}

Batch::Batch(const PackedSequences& packed, std::span<const Prefix> batch_prefixes)
    : prefixes(batch_prefixes) {
  std::int64_t page_count = 0;
  for (const auto& [b, n] : prefixes) {
    const auto first = packed.tokens.begin() + packed.offsets[static_cast<std::size_t>(b)];
    sequences.push_back({rows(), n, 0, nullptr});
    tokens.insert(tokens.end(), first, first + n);
    for (std::int32_t p = 0; p < n; ++p) positions.push_back(p);
    page_count += (n + kPageTokens - 1) / kPageTokens;
    longest_ = std::max(longest_, n);
  }
  pages_.resize(static_cast<std::size_t>(page_count));
  std::iota(pages_.begin(), pages_.end(), 0);
  const std::int32_t* next = pages_.data();
  for (SequenceRows& sequence : sequences) {
    sequence.pages = next;
    next += (sequence.rows + kPageTokens - 1) / kPageTokens;
  }
}

}  // namespace hindsearch
