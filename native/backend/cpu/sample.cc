#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/sampling.h"
#include "native/backend/cpu/softmax.h"

namespace hindsearch {
namespace cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Draw {
  Token token;
  float log_prob;
};

bool filtered(const Sampling& sampling, std::int64_t vocabulary) {
  return (sampling.top_k > 0 && sampling.top_k < vocabulary) || sampling.top_p < 1 || sampling.min_p > 0;
}

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

Row summarize(const RowKernels& kernels, const float* logits, std::int64_t vocabulary, float temperature) {
  const std::int64_t count = vocabulary_chunks(vocabulary);
  auto* chunks = scratch<ChunkStatistics>(Slot::rows, count);
  Row row{logits, vocabulary, 1 / temperature, chunks, {}};
  for (std::int64_t chunk = 0; chunk < count; ++chunk) {
    chunks[chunk] = kernels.chunk_statistics(logits + row.start(chunk), row.end(chunk) - row.start(chunk),
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
  double target = uniform * row.total.sum();
  std::int64_t chosen = -1;
  for (std::int64_t chunk = 0; chunk < row.chunk_count(); ++chunk) {
    const double mass = row.mass(chunk);
    if (!(mass > 0)) continue;
    chosen = chunk;
    if (target < mass) break;
    target -= mass;
  }
  const std::int64_t start = row.start(chosen), count = row.end(chosen) - start;
  float weights[kVocabularyChunk];
  // Relative to the chunk's own maximum, so that a chunk of tiny probabilities does not underflow.
  const float shift = row.chunks[chosen].largest;
  kernels.exponentials(row.logits + start, count, row.inverse_temperature, shift, weights);
  target /= std::exp(double{shift} - row.total.largest());
  std::int64_t token = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!(weights[i] > 0)) continue;
    // If rounding leaves a remainder behind the last token, the last possible one takes it.
    token = i;
    if (target < weights[i]) break;
    target -= weights[i];
  }
  return row.draw_of(start + token);
}

Draw draw_filtered(const float* logits, std::int64_t vocabulary, const Sampling& sampling, double uniform) {
  const std::vector<float> probabilities = filter_probabilities(logits, vocabulary, sampling);
  Token token = -1;
  double target = uniform;
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    const float p = probabilities[static_cast<std::size_t>(i)];
    if (!(p > 0)) continue;
    token = static_cast<Token>(i);
    if (target < p) break;
    target -= p;
  }
  if (token < 0) return {0, kNaN};
  return {token, std::log(probabilities[static_cast<std::size_t>(token)])};
}

Draw draw_row(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
              const Sampling& sampling, double uniform) {
  const bool greedy = sampling.temperature == 0;
  const Row row = summarize(kernels, logits, vocabulary, greedy ? 1 : sampling.temperature);
  if (!row.finite()) return {0, kNaN};
  if (greedy) return largest(row);
  if (filtered(sampling, vocabulary)) return draw_filtered(logits, vocabulary, sampling, uniform);
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

}  // namespace cpu

namespace {

// Removes, from the smallest up, the candidates whose cumulative mass is at most `bound`, by a
// selection that halves the range it looks at: no full sort of the vocabulary.
void drop_smallest(std::vector<Token>& candidates, const std::vector<double>& mass, double bound) {
  const auto smaller = [&](Token a, Token b) {
    const double x = mass[static_cast<std::size_t>(a)], y = mass[static_cast<std::size_t>(b)];
    return x != y ? x < y : a > b;
  };
  double below = 0;
  auto low = candidates.begin(), high = candidates.end();  // what is dropped ends in [low, high)
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, smaller);
    const double part = std::accumulate(
        low, middle, 0.0, [&](double sum, Token i) { return sum + mass[static_cast<std::size_t>(i)]; });
    if (below + part <= bound) {
      below += part;
      low = middle;
    } else {
      high = middle;
    }
  }
  const bool last_too = low + 1 != candidates.end() && below + mass[static_cast<std::size_t>(*low)] <= bound;
  candidates.erase(candidates.begin(), low + (last_too ? 1 : 0));
}

}  // namespace

std::vector<float> filter_probabilities(const float* logits, std::int64_t vocabulary,
                                        const Sampling& sampling) {
  const auto count = static_cast<std::size_t>(vocabulary);
  std::vector<float> out(count, 0.0f);
  float top = -std::numeric_limits<float>::infinity();
  std::size_t first = 0;
  bool valid = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (logits[i] > top) {
      top = logits[i];
      first = i;
    }
    valid = valid && logits[i] == logits[i];
  }
  if (!valid || !std::isfinite(top)) {
    std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
    return out;
  }
  if (sampling.temperature == 0) {
    out[first] = 1;
    return out;
  }

  float lowest = -std::numeric_limits<float>::infinity();
  if (sampling.top_k > 0 && sampling.top_k < vocabulary) {
    std::vector<float> sorted(logits, logits + vocabulary);
    const auto kth = sorted.begin() + (sampling.top_k - 1);
    std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
    lowest = *kth;
  }
  std::vector<double> mass(count, 0.0);
  std::vector<Token> candidates;
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (logits[i] < lowest) continue;
    mass[i] = std::exp((double{logits[i]} - top) / sampling.temperature);
    total += mass[i];
    if (mass[i] > 0) candidates.push_back(static_cast<Token>(i));
  }
  if (sampling.top_p < 1) drop_smallest(candidates, mass, (1 - double{sampling.top_p}) * total);
  if (sampling.min_p > 0) {
    std::erase_if(candidates, [&](Token i) { return mass[static_cast<std::size_t>(i)] < sampling.min_p; });
  }
  total = 0;
  std::sort(candidates.begin(), candidates.end());
  for (const Token i : candidates) total += mass[static_cast<std::size_t>(i)];
  for (const Token i : candidates) {
    out[static_cast<std::size_t>(i)] = static_cast<float>(mass[static_cast<std::size_t>(i)] / total);
  }
  return out;
}

}  // namespace hindsearch
