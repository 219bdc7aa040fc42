// Log-sum-exp over the vocabulary, the one place where it is defined: chunks of kVocabularyChunk
// logits, each reduced in f32 by RowKernels::chunk_statistics, merged in ascending order in f64.
// Training and sampling both go through it, so their log-probs agree bit for bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "native/backend/cpu/kernels.h"

namespace hindsearch::cpu {

// A multiple of the panel columns of every instruction set.
inline constexpr std::int64_t kVocabularyChunk = 768;

inline std::int64_t vocabulary_chunks(std::int64_t vocabulary) {
  return (vocabulary + kVocabularyChunk - 1) / kVocabularyChunk;
}

class SoftmaxSum {
 public:
  // NaN anywhere, and +inf, end as NaN.
  void add(const ChunkStatistics& chunk) {
    const double top = chunk.largest;
    if (top > largest_) {
      rescale(top);
      sum_ += chunk.sum;
      weighted_ += chunk.weighted;
      return;
    }
    const double below = top - largest_;
    const double factor = below == 0 ? 1 : top == kNothing ? 0 : std::exp(below);
    // A chunk without a finite logit has the sum 0, or NaN, which must not be multiplied away.
    sum_ += top == kNothing ? chunk.sum : factor * chunk.sum;
    weighted_ += factor == 0 ? 0 : factor * (chunk.weighted + below * chunk.sum);
  }

  double largest() const { return largest_; }
  double sum() const { return sum_; }
  double log_sum() const { return largest_ + std::log(sum_); }
  // Of z = logit / temperature.
  double log_prob(float z) const { return (double{z} - largest_) - std::log(sum_); }
  double entropy() const { return std::log(sum_) - weighted_ / sum_; }

 private:
  static constexpr double kNothing = -std::numeric_limits<double>::infinity();

  void rescale(double top) {
    if (largest_ != kNothing) {
      const double below = largest_ - top, factor = std::exp(below);
      weighted_ = factor * (weighted_ + below * sum_);
      sum_ *= factor;
    }
    largest_ = top;
  }

  double largest_ = kNothing;
  double sum_ = 0;
  double weighted_ = 0;
};

}  // namespace hindsearch::cpu
