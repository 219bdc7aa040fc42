// Every op once more, in float64 and in the plainest loops, as the formulas are written. Tests
// trust this file and nothing else.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "native/backend/backend.h"

namespace hindsearch::reference {

using Values = std::vector<double>;

inline Values widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// The operand of a matrix product: as it is, or rounded to bf16 to nearest even.
inline double operand(float x, ComputeType compute) {
  if (compute == ComputeType::f32) return x;
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}
inline Values operands(const std::vector<float>& x, ComputeType compute) {
  Values out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = operand(x[i], compute);
  return out;
}

// C[m, n] = A[m, k] B[k, n]
inline Values product(const Values& a, const Values& b, std::size_t m, std::size_t k,
                      std::size_t n) {
  Values c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}
inline Values transpose(const Values& a, std::size_t rows, std::size_t columns) {
  Values out(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = a[i * columns + j];
  }
  return out;
}

// One sequence without past, one query head; q, k, v [T, D].
struct Attention {
  Values out;            // [T, D]
  Values probabilities;  // [T, T]
};
inline Attention attention(const Values& q, const Values& k, const Values& v, std::size_t t,
                           std::size_t d, double scale) {
  Attention result{Values(t * d), Values(t * t)};
  for (std::size_t i = 0; i < t; ++i) {
    double* p = &result.probabilities[i * t];
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      for (std::size_t c = 0; c < d; ++c) p[j] += q[i * d + c] * k[j * d + c] * scale;
      largest = std::max(largest, p[j]);
    }
    for (std::size_t j = 0; j <= i; ++j) sum += p[j] = std::exp(p[j] - largest);
    for (std::size_t j = 0; j <= i; ++j) {
      p[j] /= sum;
      for (std::size_t c = 0; c < d; ++c) result.out[i * d + c] += p[j] * v[j * d + c];
    }
  }
  return result;
}
// Adds to d_q, d_k, d_v.
inline void attention_gradient(const Values& q, const Values& k, const Values& v,
                               const Values& d_out, std::size_t t, std::size_t d, double scale,
                               Values& d_q, Values& d_k, Values& d_v) {
  const Attention forward = attention(q, k, v, t, d, scale);
  for (std::size_t i = 0; i < t; ++i) {
    const double* p = &forward.probabilities[i * t];
    double delta = 0;
    for (std::size_t c = 0; c < d; ++c) delta += d_out[i * d + c] * forward.out[i * d + c];
    for (std::size_t j = 0; j <= i; ++j) {
      double d_p = 0;
      for (std::size_t c = 0; c < d; ++c) d_p += d_out[i * d + c] * v[j * d + c];
      const double d_score = p[j] * (d_p - delta) * scale;
      for (std::size_t c = 0; c < d; ++c) {
        d_v[j * d + c] += p[j] * d_out[i * d + c];
        d_q[i * d + c] += d_score * k[j * d + c];
        d_k[j * d + c] += d_score * q[i * d + c];
      }
    }
  }
}

struct Distribution {
  Values log_probs;
  double log_sum;
  double entropy;
};
inline Distribution softmax(const double* logits, std::size_t n, double temperature) {
  Distribution result{Values(n), 0, 0};
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, logits[i] / temperature);
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(logits[i] / temperature - largest);
  result.log_sum = largest + std::log(sum);
  for (std::size_t i = 0; i < n; ++i) {
    result.log_probs[i] = logits[i] / temperature - result.log_sum;
    const double p = std::exp(result.log_probs[i]);
    if (p > 0) result.entropy -= p * result.log_probs[i];
  }
  return result;
}

}  // namespace hindsearch::reference
