#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "native/model/model.h"

namespace hindsearch::testing {

// Sequences in a paged cache, as the decoder keeps them, with each sequence's pages scattered.
class CachedRun {
 public:
  CachedRun(Model& model, std::int32_t sequences, std::int32_t max_tokens)
      : model_(model), pages_each_((max_tokens + kPageTokens - 1) / kPageTokens) {
    const ModelConfig& config = model.config();
    pages_ = model.backend().kv_pages(config.layers, config.kv_heads, config.head_dim);
    buffer_ = model.backend().allocate(pages_.page_floats * pages_each_ * sequences);
    pages_.data = buffer_->data();
    past_.resize(static_cast<std::size_t>(sequences));
    for (std::int32_t b = 0; b < sequences; ++b) {
      for (std::int32_t i = 0; i < pages_each_; ++i) numbers_.push_back(i * sequences + b);
    }
  }

  // Appends tokens to some sequences and returns the logits [sum of tokens, V] of all new rows.
  std::vector<float> append(const std::vector<std::int32_t>& sequences,
                            const std::vector<std::vector<Token>>& tokens) {
    std::vector<Token> packed;
    std::vector<std::int32_t> positions;
    std::vector<SequenceRows> rows;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      std::int32_t& past = past_[static_cast<std::size_t>(sequences[i])];
      const auto n = static_cast<std::int32_t>(tokens[i].size());
      rows.push_back({static_cast<std::int64_t>(packed.size()), n, past,
                      numbers_.data() + sequences[i] * pages_each_});
      packed.insert(packed.end(), tokens[i].begin(), tokens[i].end());
      for (std::int32_t p = 0; p < n; ++p) positions.push_back(past + p);
      past += n;
    }
    std::vector<std::int32_t> wanted(packed.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    const auto count = static_cast<std::int64_t>(packed.size());
    const std::int64_t width = model_.config().token_limit;
    auto logits = model_.backend().allocate(model_.backend().padded_rows(count) * width);
    model_.forward_cached(packed, positions, rows, pages_, wanted, logits->data());
    std::vector<float> result(static_cast<std::size_t>(count * width));
    model_.backend().download(logits->data(), result.data(), count * width);
    return result;
  }

 private:
  Model& model_;
  std::int32_t pages_each_;
  KvPages pages_{};
  std::unique_ptr<Buffer> buffer_;
  std::vector<std::int32_t> past_;
  std::vector<std::int32_t> numbers_;
};

}  // namespace hindsearch::testing
