#include "native/backend/cpu/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/memory.h"
#include "native/backend/cpu/selection.h"
#include "native/backend/cpu/softmax.h"
#include "native/backend/inverse_sum.h"
#include "native/backend/sampling.h"

namespace hindsearch {
namespace cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What is left of a row, as candidates in the order of their ids. Of them the first `bounded` are
// kept with a mass of at least `lowest`, those behind only with more: ties at the cut of top-p.
struct Kept {
  std::int64_t count = 0;
  const Token* tokens = nullptr;  // null: candidate i is token i
  const float* logits = nullptr;
  const float* masses = nullptr;  // relative to the largest
  float top = 0;
  float inverse_temperature = 0;
  float lowest = 0;
  std::int64_t bounded = 0;
  const double* sums = nullptr;  // kept mass of each chunk of candidates
  double total = kNaN;           // and of all; NaN: the row has no distribution

  std::int64_t chunks() const { return vocabulary_chunks(count); }
  std::int64_t start(std::int64_t chunk) const { return chunk * kVocabularyChunk; }
  std::int64_t end(std::int64_t chunk) const { return std::min(count, start(chunk + 1)); }
  float more() const { return std::nextafter(lowest, kInfinity); }
  bool has(std::int64_t i) const { return i < bounded ? masses[i] >= lowest : masses[i] > lowest; }
  Token token(std::int64_t i) const { return tokens ? tokens[i] : static_cast<Token>(i); }
};

// No logit below this has a mass of min_p; some with less may be above.
float certainly_below(float top, const Sampling& sampling) {
  constexpr double kSlack = 0.01;  // far above the rounding of an exponential's argument
  const double lowest =
      double{top} + double{sampling.temperature} * (std::log(double{sampling.min_p}) - kSlack);
  return std::nextafter(static_cast<float>(lowest), -kInfinity);
}

// The number of leading candidates among which the first `equals` of mass `value` are.
std::int64_t find_equal(const float* masses, std::int64_t count, float value, std::int64_t equals) {
  if (equals == 0) return 0;
  std::int64_t start = 0;
  for (; start < count; start += kVocabularyChunk) {
    const std::int64_t end = std::min(count, start + kVocabularyChunk);
    const std::int64_t here = std::count(masses + start, masses + end, value);
    if (here >= equals) break;
    equals -= here;
  }
  for (;; ++start) {
    if (masses[start] == value && --equals == 0) return start + 1;
  }
}

void sum_kept(const RowKernels& kernels, Kept& kept, double* sums) {
  kept.sums = sums;
  kept.total = 0;
  for (std::int64_t chunk = 0; chunk < kept.chunks(); ++chunk) {
    const std::int64_t start = kept.start(chunk), end = kept.end(chunk);
    const std::int64_t middle = std::clamp(kept.bounded, start, end);
    sums[chunk] = 0;
    if (start < middle)
      sums[chunk] += kernels.sum_from(kept.masses + start, middle - start, kept.lowest);
    if (middle < end)
      sums[chunk] += kernels.sum_from(kept.masses + middle, end - middle, kept.more());
    kept.total += sums[chunk];
  }
}

Kept filter(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
            const Sampling& sampling) {
  Kept kept;
  kept.top = kernels.row_maximum(logits, vocabulary);
  if (!std::isfinite(kept.top)) return kept;
  kept.inverse_temperature = 1 / sampling.temperature;

  const bool nucleus = sampling.top_p < 1;
  const std::int64_t chunks = vocabulary_chunks(vocabulary), room = vocabulary + kPickSlack;
  auto* sums = static_cast<double*>(scratch_bytes(
      Slot::rows, byte_size(chunks, sizeof(double)) + byte_size(4 * room, sizeof(float))));
  auto* masses = reinterpret_cast<float*>(sums + chunks);
  float* work = masses + room;
  float* found = work + room;
  auto* tokens = reinterpret_cast<Token*>(found + room);

  float least = -kInfinity;
  if (sampling.top_k > 0 && sampling.top_k < vocabulary)
    least = kth_largest(kernels, logits, vocabulary, sampling.top_k, work);
  // The mass that top-p shares out includes what min-p will take.
  if (sampling.min_p > 0 && !nucleus) least = std::max(least, certainly_below(kept.top, sampling));
  kept.logits = logits;
  kept.count = vocabulary;
  if (least > -kInfinity) {
    kept.count = kernels.collect(logits, vocabulary, least, found, tokens);
    kept.logits = found;
    kept.tokens = tokens;
  }
  kept.masses = masses;
  const double total =
      kernels.masses(kept.logits, kept.count, kept.top, kept.inverse_temperature, masses);
  if (!std::isfinite(total)) return kept;

  kept.lowest = std::max(sampling.min_p, std::numeric_limits<float>::denorm_min());
  kept.bounded = kept.count;
  if (nucleus) {
    const Cut cut = cut_top_p(kernels, masses, kept.count, total, double{sampling.top_p}, work);
    if (cut.value >= kept.lowest) {
      kept.lowest = cut.value;
      if (cut.dropped > 0) kept.bounded = find_equal(masses, kept.count, cut.value, cut.equals);
    }
  }
  sum_kept(kernels, kept, sums);
  return kept;
}

}  // namespace

bool filters(const Sampling& sampling, std::int64_t vocabulary) {
  return (sampling.top_k > 0 && sampling.top_k < vocabulary) || sampling.top_p < 1 ||
         sampling.min_p > 0;
}

Draw draw_filtered(const RowKernels& kernels, const float* logits, std::int64_t vocabulary,
                   const Sampling& sampling, double uniform) {
  const Kept kept = filter(kernels, logits, vocabulary, sampling);
  if (std::isnan(kept.total)) return {0, kNaN};
  const auto chunk = find_place(0, kept.chunks(), uniform * kept.total,
                                [&](std::int64_t i) { return kept.sums[i]; });
  const auto place =
      find_place(kept.start(chunk.index), kept.end(chunk.index), chunk.rest,
                 [&](std::int64_t i) { return kept.has(i) ? double{kept.masses[i]} : 0; });
  const float z = (kept.logits[place.index] - kept.top) * kept.inverse_temperature;
  return {kept.token(place.index), static_cast<float>(z - std::log(kept.total))};
}

std::vector<float> filter_probabilities(const RowKernels& kernels, const float* logits,
                                        std::int64_t vocabulary, const Sampling& sampling) {
  std::vector<float> out(static_cast<std::size_t>(vocabulary));
  if (sampling.temperature == 0) {
    const float top = kernels.row_maximum(logits, vocabulary);
    if (!std::isfinite(top)) {
      std::fill(out.begin(), out.end(), kNaN);
    } else {
      out[static_cast<std::size_t>(std::find(logits, logits + vocabulary, top) - logits)] = 1;
    }
    return out;
  }
  const Kept kept = filter(kernels, logits, vocabulary, sampling);
  if (std::isnan(kept.total)) {
    std::fill(out.begin(), out.end(), kNaN);
    return out;
  }
  for (std::int64_t i = 0; i < kept.count; ++i) {
    if (kept.has(i))
      out[static_cast<std::size_t>(kept.token(i))] =
          static_cast<float>(kept.masses[i] / kept.total);
  }
  return out;
}

}  // namespace cpu

std::vector<float> filter_probabilities(const float* logits, std::int64_t vocabulary,
                                        const Sampling& sampling) {
  return cpu::filter_probabilities(*cpu::active_kernels().rows, logits, vocabulary, sampling);
}

}  // namespace hindsearch
