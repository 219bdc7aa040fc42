#include <algorithm>
#include <cmath>
#include <limits>

#include "native/backend/cpu/filters.h"
#include "native/backend/cpu/memory.h"
#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/softmax.h"
#include "native/backend/inverse_sum.h"

namespace hindsearch::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Statistics of one row at one temperature, kept by chunk so that a draw need only open one chunk.
struct Row {
  const float* logits;
  std::int64_t vocabulary;
  float inverse_temperature;
  const ChunkStatistics* chunks;
  SoftmaxSum total;

  std::int64_t chunk_count() const { return vocabulary_chunks(vocabulary); }
  std::int64_t start(std::int64_t chunk) const { return chunk * kVocabularyChunk; }
  std::int64_t end(std::int64_t chunk) const { return std::min(vocabulary, start(chunk + 1)); }
  double mass(std::int64_t chunk) const {
    return chunks[chunk].sum * std::exp(double{chunks[chunk].largest} - total.largest());
  }
  bool finite() const { return std::isfinite(total.sum()) && total.sum() > 0; }
  Draw draw_of(std::int64_t token) const {
    const float z = logits[token] * inverse_temperature;
    return {static_cast<Token>(token), static_cast<float>(total.log_prob(z))};
  }
};

Row summarize(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
              float temperature) {
  const std::int64_t count = vocabulary_chunks(vocabulary);
  auto* chunks = scratch<ChunkStatistics>(Slot::rows, count);
  Row row{logits, vocabulary, 1 / temperature, chunks, {}};
  for (std::int64_t chunk = 0; chunk < count; ++chunk) {
    chunks[chunk] = kernels.chunk_sum(logits + row.start(chunk), row.end(chunk) - row.start(chunk),
                                      row.inverse_temperature);
    row.total.add(chunks[chunk]);
  }
  return row;
}

Draw largest(const Row& row) {
  for (std::int64_t chunk = 0; chunk < row.chunk_count(); ++chunk) {
    if (row.chunks[chunk].largest != row.total.largest()) continue;
    for (std::int64_t i = row.start(chunk); i < row.end(chunk); ++i) {
      if (row.logits[i] * row.inverse_temperature == row.total.largest()) return row.draw_of(i);
    }
  }
  return {0, kNaN};
}

// The first token whose cumulative probability is above `uniform`: chunks first, then inside one.
Draw draw(const RowKernels& kernels, const Row& row, double uniform) {
  const auto mass_of = [&](std::int64_t chunk) { return row.mass(chunk); };
  const auto chunk = find_place(0, row.chunk_count(), uniform * row.total.sum(), mass_of);
  const std::int64_t start = row.start(chunk.index), count = row.end(chunk.index) - start;
  float weights[kVocabularyChunk];
  // Relative to the chunk's own maximum, so that a chunk of tiny probabilities does not underflow.
  kernels.exponentials(row.logits + start, count, row.inverse_temperature,
                       row.chunks[chunk.index].largest, weights);
  // The chunk's sum in f32 is too coarse a measure: what it is too large by would be the share of
  // the last token.
  const double fraction = chunk.rest / row.mass(chunk.index);
  const auto token = find_place(0, count, fraction * kernels.sum_from(weights, count, 0),
                                [&](std::int64_t i) { return double{weights[i]}; });
  return row.draw_of(start + token.index);
}

Draw draw_row(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
              const Sampling& sampling, double uniform) {
  const bool greedy = sampling.temperature == 0;
  if (!greedy && filters(sampling, vocabulary))
    return draw_filtered(kernels, logits, vocabulary, sampling, uniform);
  const Row row = summarize(kernels, logits, vocabulary, greedy ? 1 : sampling.temperature);
  if (!row.finite()) return {0, kNaN};
  if (greedy) return largest(row);
  return draw(kernels, row, uniform);
}

}  // namespace

void sample(const RowKernels& kernels, float* logits, std::int64_t rows, std::int64_t vocabulary,
            const Sampling* sampling, const double* uniforms, Token* tokens, float* log_probs) {
  parallel_ranges(rows, vocabulary * 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const Draw drawn =
          draw_row(kernels, logits + r * vocabulary, vocabulary, sampling[r], uniforms[r]);
      tokens[r] = drawn.token;
      log_probs[r] = drawn.log_prob;
    }
  });
}

}  // namespace hindsearch::cpu
