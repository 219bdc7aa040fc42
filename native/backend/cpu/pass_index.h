// The rows of a pass: the CPU reads them where they are.
#pragma once

#include <span>

#include "native/backend/backend.h"

namespace hindsearch::cpu {

struct CpuPassIndex final : PassIndex {
  void assign(std::span<const Token> pass_tokens, std::span<const std::int32_t> pass_positions,
              std::span<const SequenceRows> pass_sequences) override {
    tokens = pass_tokens;
    positions = pass_positions;
    sequences = pass_sequences;
  }
  std::int64_t rows() const override { return static_cast<std::int64_t>(tokens.size()); }

  std::span<const Token> tokens;
  std::span<const std::int32_t> positions;
  std::span<const SequenceRows> sequences;
};

}  // namespace hindsearch::cpu
