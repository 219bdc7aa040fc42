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
  return (sampling.top_k > 0 && sampling.top_k < vocabulary) || sampling.top_p < 1 ||
         sampling.min_p > 0;
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

Row summarize(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
              float temperature) {
  const std::int64_t count = vocabulary_chunks(vocabulary);
  auto* chunks = scratch<ChunkStatistics>(Slot::rows, count);
  Row row{logits, vocabulary, 1 / temperature, chunks, {}};
  for (std::int64_t chunk = 0; chunk < count; ++chunk) {
    chunks[chunk] = kernels.chunk_statistics(
        logits + row.start(chunk), row.end(chunk) - row.start(chunk), row.inverse_temperature);
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

Draw draw_filtered(const float* logits, std::int64_t vocabulary, const Sampling& sampling,
                   double uniform) {
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

// Logits of one row that may still be drawn, with their exponentials relative to the largest.
struct Candidates {
  std::vector<Token> tokens;
  std::vector<float> mass;  // [V]

  float of(Token token) const { return mass[static_cast<std::size_t>(token)]; }
  double total() const {
    return std::accumulate(tokens.begin(), tokens.end(), 0.0,
                           [&](double sum, Token i) { return sum + of(i); });
  }
};

// Removes, from the smallest up, all whose cumulative mass is at most `bound`, but never the
// largest; among equals the higher ids first.
void drop_smallest(Candidates& candidates, double bound) {
  auto& tokens = candidates.tokens;
  // What all together stays below the bound goes without being ordered; that is nearly all of a
  // vocabulary.
  const double negligible = bound / static_cast<double>(tokens.size());
  double below = 0;
  const auto kept = std::partition(tokens.begin(), tokens.end(),
                                   [&](Token i) { return candidates.of(i) < negligible; });
  for (auto i = tokens.begin(); i != kept; ++i) below += candidates.of(*i);

  // A selection that halves the range in which the cut lies.
  const auto smaller = [&](Token a, Token b) {
    const float x = candidates.of(a), y = candidates.of(b);
    return x != y ? x < y : a > b;
  };
  auto low = kept, high = tokens.end();
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, smaller);
    double part = 0;
    for (auto i = low; i != middle; ++i) part += candidates.of(*i);
    if (below + part <= bound) {
      below += part;
      low = middle;
    } else {
      high = middle;
    }
  }
  if (low + 1 != tokens.end() && below + candidates.of(*low) <= bound) ++low;
  tokens.erase(tokens.begin(), low);
}

// The k-th largest logit.
float kth_largest(const float* logits, std::int64_t vocabulary, std::int32_t k) {
  std::vector<float> sorted(logits, logits + vocabulary);
  const auto kth = sorted.begin() + (k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  return *kth;
}

}  // namespace

std::vector<float> filter_probabilities(const float* logits, std::int64_t vocabulary,
                                        const Sampling& sampling) {
  const auto count = static_cast<std::size_t>(vocabulary);
  const bool valid = std::none_of(logits, logits + count, [](float x) { return x != x; });
  const auto first = std::max_element(logits, logits + count) - logits;
  if (!valid || !std::isfinite(logits[first])) {
    return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
  }
  std::vector<float> out(count, 0.0f);
  if (sampling.temperature == 0) {
    out[static_cast<std::size_t>(first)] = 1;
    return out;
  }

  Candidates candidates;
  candidates.mass.resize(count);
  // The difference first: it is exact where it matters, so a low temperature magnifies no rounding.
  std::transform(logits, logits + count, candidates.mass.begin(),
                 [&](float x) { return x - logits[first]; });
  cpu::active_kernels().rows->exponentials(candidates.mass.data(), vocabulary,
                                           1 / sampling.temperature, 0, candidates.mass.data());
  const bool cut = sampling.top_k > 0 && sampling.top_k < vocabulary;
  const float lowest = cut ? kth_largest(logits, vocabulary, sampling.top_k)
                           : -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < count; ++i) {
    if (logits[i] >= lowest && candidates.mass[i] > 0)
      candidates.tokens.push_back(static_cast<Token>(i));
  }
  if (sampling.top_p < 1)
    drop_smallest(candidates, (1 - double{sampling.top_p}) * candidates.total());
  std::erase_if(candidates.tokens, [&](Token i) { return candidates.of(i) < sampling.min_p; });
  const double total = candidates.total();
  for (const Token i : candidates.tokens) {
    out[static_cast<std::size_t>(i)] = static_cast<float>(candidates.of(i) / total);
  }
  return out;
}

}  // namespace hindsearch
