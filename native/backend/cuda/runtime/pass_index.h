// The rows of a pass, built on the host and brought to the device in one upload.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "native/backend/cuda/pass.h"
#include "native/backend/cuda/runtime/context.h"
#include "native/backend/cuda/runtime/graph.h"

namespace hindsearch::cuda {

// Rows that a pass of one new token a sequence is run with: few enough sizes that each is recorded
// once, near enough to each other that padding costs little.
constexpr std::int64_t padded_rows(std::int64_t sequences) {
  if (sequences <= 1) return sequences;
  if (sequences <= 2) return 2;
  if (sequences <= 4) return 4;
  const std::int64_t step = sequences <= 64    ? 8
                            : sequences <= 128 ? 16
                            : sequences <= 256 ? 32
                                               : 64;
  return ceil_div(sequences, step) * step;
}

// TokenRuns of `ids`, on the device while this lives.
class UploadedRuns {
 public:
  UploadedRuns(const Context& context, std::span<const std::int32_t> ids);
  const TokenRuns& get() const { return runs_; }

 private:
  TemporaryBytes memory_;
  TokenRuns runs_;
};

class CudaPassIndex final : public PassIndex {
 public:
  // `padded` as in Backend::index.
  CudaPassIndex(const Context& context, bool padded) : context_(context), padded_(padded) {}

  // Throws Error(INVALID_ARGUMENT) for more rows or pages than 32 bits count.
  void assign(std::span<const Token> tokens, std::span<const std::int32_t> positions,
              std::span<const SequenceRows> sequences) override;
  std::int64_t rows() const override { return pass_.rows; }

  const Pass& pass() const { return pass_; }
  // Of the pass's tokens; made when first asked for.
  const TokenRuns& runs() const;
  GraphCache& graphs() { return graphs_; }

 private:
  std::byte* place(std::size_t bytes, bool fixed);

  const Context& context_;
  bool padded_;
  Pass pass_{};
  std::span<const Token> tokens_;
  std::vector<std::byte> host_;
  std::vector<QueryTile> tiles_;
  DeviceBytes fixed_;                      // of padded passes, whose graphs keep the address
  std::optional<TemporaryBytes> passing_;  // of all others
  mutable std::optional<UploadedRuns> runs_;
  GraphCache graphs_;
};

}  // namespace hindsearch::cuda
