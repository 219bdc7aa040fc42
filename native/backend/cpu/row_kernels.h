// Element-wise and row-wise work: sums over a row are lane sums over blocks of sixteen in ascending
// order, then one fixed tree over the lanes.
#pragma once

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/simd.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

// Calls body(at) for every block of sixteen, the last one perhaps shorter: at(p) is that block of p
// (missing lanes zero), at.put(p, x) writes it.
struct FullBlock {
  std::int64_t offset;
  F16 operator()(const float* p) const { return load16(p + offset); }
  void put(float* p, const F16& x) const { store16(p + offset, x); }
};
struct PartBlock {
  std::int64_t offset;
  std::int64_t count;
  F16 operator()(const float* p) const { return load_first(p + offset, count); }
  void put(float* p, const F16& x) const { store_first(p + offset, count, x); }
};
template <class Body>
inline void for_blocks(std::int64_t n, Body&& body) {
  const std::int64_t full = n / kLanes * kLanes;
  for (std::int64_t i = 0; i < full; i += kLanes) body(FullBlock{i});
  if (full < n) body(PartBlock{full, n - full});
}

inline void add(const float* x, float* y, std::int64_t n) {
  for_blocks(n, [&](auto at) { at.put(y, at(y) + at(x)); });
}

inline void add_rows(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                     float* y) {
  for_blocks(columns, [&](auto at) {
    F16 total = splat16(0);
    const float* row = x;
    for (std::int64_t r = 0; r < rows; ++r, row += stride) total = total + at(row);
    at.put(y, at(y) + total);
  });
}

inline double sum_of_squares(const float* x, std::int64_t n) {
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = x[i + lane];
      sums[lane] += value * value;
    }
  }
  for (int lane = 0; i < n; ++i, ++lane) sums[lane] += static_cast<double>(x[i]) * x[i];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

inline void adamw(float* weights, const float* gradients, float* first, float* second,
                  std::int64_t n, const AdamWStep& step, float corrected_rate,
                  float corrected_root) {
  const F16 scale = splat16(step.gradient_scale), beta1 = splat16(step.beta1),
            beta2 = splat16(step.beta2);
  const F16 rest1 = splat16(1 - step.beta1), rest2 = splat16(1 - step.beta2);
  const F16 keep = splat16(1 - step.learning_rate * step.weight_decay);
  const F16 rate = splat16(corrected_rate), root = splat16(corrected_root),
            epsilon = splat16(step.epsilon);
  for_blocks(n, [&](auto at) {
    const F16 g = at(gradients) * scale;
    const F16 m = fma(beta1, at(first), rest1 * g);
    const F16 v = fma(beta2, at(second), rest2 * g * g);
    at.put(first, m);
    at.put(second, v);
    at.put(weights, at(weights) * keep - rate * m / (sqrt(v) * root + epsilon));
  });
}

inline void rms_norm(const ConstHeadsView& x, const float* weight, float epsilon,
                     const HeadsView& y, float* inv_rms, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = x.width;
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t h = 0; h < x.heads; ++h) {
      const float* in = x.data + r * x.row_stride + h * n;
      float* out = y.data + r * y.row_stride + h * n;
      F16 squares = splat16(0);
      for_blocks(n, [&](auto at) { squares = fma(at(in), at(in), squares); });
      const double mean = static_cast<double>(sum(squares)) / static_cast<double>(n);
      const float inv = static_cast<float>(1 / __builtin_sqrt(mean + static_cast<double>(epsilon)));
      const F16 inv16 = splat16(inv);
      for_blocks(n, [&](auto at) { at.put(out, at(in) * inv16 * at(weight)); });
      if (inv_rms) inv_rms[r * x.heads + h] = inv;
    }
  }
}

inline void rms_norm_backward(const ConstHeadsView& x, const float* inv_rms, const float* weight,
                              const ConstHeadsView& d_y, const HeadsView& d_x, float* d_weight,
                              std::int64_t begin, std::int64_t end) {
  const std::int64_t n = x.width;
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t h = 0; h < x.heads; ++h) {
      const float* in = x.data + r * x.row_stride + h * n;
      const float* dy = d_y.data + r * d_y.row_stride + h * n;
      float* dx = d_x.data + r * d_x.row_stride + h * n;
      const float inv = inv_rms[r * x.heads + h];
      F16 dots = splat16(0);
      for_blocks(n, [&](auto at) { dots = fma(at(dy) * at(weight), at(in), dots); });
      const double mean = static_cast<double>(sum(dots)) / static_cast<double>(n);
      const F16 inv16 = splat16(inv);
      const F16 pull = splat16(static_cast<float>(mean * inv * inv * inv));
      for_blocks(n, [&](auto at) {
        const F16 scaled = at(dy) * inv16;
        at.put(d_weight, fma(scaled, at(in), at(d_weight)));
        at.put(dx, at(dx) + (scaled * at(weight) - at(in) * pull));
      });
    }
  }
}

inline void rope(const HeadsView& x, const std::int32_t* positions, const float* cosines,
                 const float* sines, bool inverse, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = x.width / 2;
  const F16 sign = splat16(inverse ? -1.0f : 1.0f);
  for (std::int64_t r = begin; r < end; ++r) {
    const float* cosine = cosines + positions[r] * half;
    const float* sine = sines + positions[r] * half;
    for (std::int64_t h = 0; h < x.heads; ++h) {
      float* low = x.data + r * x.row_stride + h * x.width;
      float* high = low + half;
      for_blocks(half, [&](auto at) {
        const F16 a = at(low), b = at(high), c = at(cosine), s = at(sine) * sign;
        at.put(low, a * c - b * s);
        at.put(high, b * c + a * s);
      });
    }
  }
}

inline void silu_gate(const float* gate_up, std::int64_t width, float* out) {
  for_blocks(width, [&](auto at) {
    const F16 g = at(gate_up);
    at.put(out, g * sigmoid(g) * at(gate_up + width));
  });
}

inline void silu_gate_backward(const float* gate_up, const float* d_out, std::int64_t width,
                               float* d_gate_up, float* out) {
  const F16 one = splat16(1);
  for_blocks(width, [&](auto at) {
    const F16 g = at(gate_up), u = at(gate_up + width), dy = at(d_out);
    const F16 s = sigmoid(g);
    at.put(d_gate_up, dy * u * s * fma(g, one - s, one));
    at.put(d_gate_up + width, dy * g * s);
    at.put(out, g * s * u);
  });
}

// A lane where z is NaN makes the sum NaN; one where z is -inf adds nothing.
template <bool kWeighted>
inline ChunkStatistics chunk_statistics(const float* logits, std::int64_t n,
                                        float inverse_temperature) {
  const F16 scale = splat16(inverse_temperature);
  const F16 lowest = splat16(-__builtin_inff());
  const std::int64_t full = n / kLanes * kLanes;
  const F16 tail = load_first(logits + full, n - full, -__builtin_inff()) * scale;
  F16 most = larger(tail, lowest);
  for (std::int64_t i = 0; i < full; i += kLanes) most = larger(load16(logits + i) * scale, most);
  const float top = largest(most);
  // With nothing above -inf there is no maximum to subtract: -inf - -inf would be NaN.
  const F16 shift = splat16(top == -__builtin_inff() ? 0.0f : top);
  F16 total = splat16(0), weighted = splat16(0);
  const auto take = [&](const F16& z) {
    const F16 below = z - shift;
    const F16 e = exp(below);
    total = total + e;
    if (!kWeighted) return;
    // Where e is 0, `below` may be -inf; 0 * -inf would be NaN.
    weighted = each([&](int i) {
      return e.part[i] > 0 ? fma(e.part[i], below.part[i], weighted.part[i]) : weighted.part[i];
    });
  };
  for (std::int64_t i = 0; i < full; i += kLanes) take(load16(logits + i) * scale);
  if (full < n) take(tail);
  return {top, sum(total), sum(weighted)};
}

inline void exponentials(const float* logits, std::int64_t n, float inverse_temperature,
                         float shift, float* out) {
  const F16 scale = splat16(inverse_temperature), shift16 = splat16(shift);
  for_blocks(n, [&](auto at) { at.put(out, exp(at(logits) * scale - shift16)); });
}

inline void softmax_gradient(const float* logits, std::int64_t n, float inverse_temperature,
                             float log_sum, float factor, float* out) {
  const F16 scale = splat16(inverse_temperature), shift = splat16(log_sum),
            minus = splat16(-factor);
  for_blocks(n, [&](auto at) { at.put(out, minus * exp(at(logits) * scale - shift)); });
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
