#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "native/backend/backend.h"
#include "native/core/error.h"
#include "native/core/thread_pool.h"

namespace hindsearch {
namespace {

float round_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (x != x) return x;
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

class CpuBuffer final : public Buffer {
 public:
  explicit CpuBuffer(std::int64_t floats) : size_(floats) {
    if (floats < 0 || floats > std::numeric_limits<std::int64_t>::max() / 8) {
      throw Error(code::kInvalidArgument, "allocate: " + std::to_string(floats) + " floats");
    }
    const std::size_t bytes = (static_cast<std::size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    data_ = static_cast<float*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)));
    if (!data_) throw Error(code::kOutOfMemory, "allocate: no memory for " + std::to_string(bytes) + " bytes");
    std::memset(data_, 0, bytes);
  }
  ~CpuBuffer() override { std::free(data_); }
  float* data() override { return data_; }
  const float* data() const override { return data_; }
  std::int64_t size() const override { return size_; }

 private:
  float* data_;
  std::int64_t size_;
};

class CpuMatrix final : public PackedMatrix {
 public:
  CpuMatrix(std::int64_t n, std::int64_t k) : n_(n), k_(k), values(static_cast<std::size_t>(n * k)) {}
  std::int64_t rows() const override { return n_; }
  std::int64_t columns() const override { return k_; }
  std::size_t bytes() const override { return values.size() * sizeof(float); }

 private:
  std::int64_t n_, k_;

 public:
  std::vector<float> values;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(ComputeType compute) : compute_(compute) {}
  ComputeType compute() const override { return compute_; }

  std::unique_ptr<Buffer> allocate(std::int64_t floats) override {
    return std::make_unique<CpuBuffer>(floats);
  }
  void upload(const float* host, float* device, std::int64_t n) override { copy(host, device, n); }
  void download(const float* device, float* host, std::int64_t n) override { copy(device, host, n); }
  void copy(const float* from, float* to, std::int64_t n) override {
    std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(float));
  }
  void zero(float* x, std::int64_t n) override {
    std::memset(x, 0, static_cast<std::size_t>(n) * sizeof(float));
  }
  void add(const float* x, float* y, std::int64_t n) override {
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
  }

  void embed(const Token* tokens, std::int64_t rows, const float* table, std::int64_t width,
             float* out) override {
    for (std::int64_t r = 0; r < rows; ++r) copy(table + tokens[r] * width, out + r * width, width);
  }
  void embed_backward(const Token* tokens, std::int64_t rows, const float* d_out, std::int64_t width,
                      float* d_table) override {
    for (std::int64_t r = 0; r < rows; ++r) add(d_out + r * width, d_table + tokens[r] * width, width);
  }

  void rms_norm(ConstHeadsView x, const float* weight, float epsilon, HeadsView y,
                float* inv_rms) override {
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t h = 0; h < x.heads; ++h) {
        const float* in = x.data + r * x.row_stride + h * x.width;
        float* out = y.data + r * y.row_stride + h * y.width;
        double sum = 0;
        for (std::int64_t i = 0; i < x.width; ++i) sum += double{in[i]} * in[i];
        const float inv = static_cast<float>(1 / std::sqrt(sum / x.width + epsilon));
        for (std::int64_t i = 0; i < x.width; ++i) out[i] = in[i] * inv * weight[i];
        if (inv_rms) inv_rms[r * x.heads + h] = inv;
      }
    }
  }
  void rms_norm_backward(ConstHeadsView x, const float* inv_rms, const float* weight,
                         ConstHeadsView d_y, HeadsView d_x, float* d_weight) override {
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t h = 0; h < x.heads; ++h) {
        const float* in = x.data + r * x.row_stride + h * x.width;
        const float* dy = d_y.data + r * d_y.row_stride + h * d_y.width;
        float* dx = d_x.data + r * d_x.row_stride + h * d_x.width;
        const float inv = inv_rms[r * x.heads + h];
        double dot = 0;
        for (std::int64_t i = 0; i < x.width; ++i) dot += double{dy[i]} * weight[i] * in[i];
        const float pull = static_cast<float>(dot / x.width) * inv * inv * inv;
        for (std::int64_t i = 0; i < x.width; ++i) {
          d_weight[i] += dy[i] * in[i] * inv;
          dx[i] += dy[i] * weight[i] * inv - in[i] * pull;
        }
      }
    }
  }

  std::unique_ptr<PackedMatrix> pack(const float* weight, std::int64_t n, std::int64_t k) override {
    auto packed = std::make_unique<CpuMatrix>(n, k);
    repack(*packed, weight);
    return packed;
  }
  void repack(PackedMatrix& packed, const float* weight) override {
    auto& values = static_cast<CpuMatrix&>(packed).values;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = operand(weight[i]);
  }
  void linear(const float* x, std::int64_t rows, const PackedMatrix& weight, const float* bias, float* y,
              bool accumulate) override {
    const std::int64_t n = weight.rows(), k = weight.columns();
    const float* w = static_cast<const CpuMatrix&>(weight).values.data();
    parallel_for(rows, [&](std::int64_t r) {
      for (std::int64_t i = 0; i < n; ++i) {
        float sum = 0;
        for (std::int64_t j = 0; j < k; ++j) sum += operand(x[r * k + j]) * w[i * k + j];
        if (bias) sum += bias[i];
        y[r * n + i] = accumulate ? y[r * n + i] + sum : sum;
      }
    });
  }
  void linear_backward_input(const float* d_y, std::int64_t rows, const float* weight, std::int64_t n,
                             std::int64_t k, float* d_x, bool accumulate) override {
    parallel_for(rows, [&](std::int64_t r) {
      if (!accumulate) zero(d_x + r * k, k);
      for (std::int64_t i = 0; i < n; ++i) {
        const float d = operand(d_y[r * n + i]);
        for (std::int64_t j = 0; j < k; ++j) d_x[r * k + j] += d * operand(weight[i * k + j]);
      }
    });
  }
  void linear_backward_weight(const float* d_y, const float* x, std::int64_t rows, std::int64_t n,
                              std::int64_t k, float* d_weight, float* d_bias) override {
    parallel_for(n, [&](std::int64_t i) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const float d = operand(d_y[r * n + i]);
        for (std::int64_t j = 0; j < k; ++j) d_weight[i * k + j] += d * operand(x[r * k + j]);
        if (d_bias) d_bias[i] += d_y[r * n + i];
      }
    });
  }

  void rope(HeadsView x, const std::int32_t* positions, const float* cosines, const float* sines,
            bool inverse) override {
    const std::int64_t half = x.width / 2;
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t h = 0; h < x.heads; ++h) {
        float* low = x.data + r * x.row_stride + h * x.width;
        for (std::int64_t i = 0; i < half; ++i) {
          const float c = cosines[positions[r] * half + i];
          const float s = inverse ? -sines[positions[r] * half + i] : sines[positions[r] * half + i];
          const float a = low[i], b = low[half + i];
          low[i] = a * c - b * s;
          low[half + i] = b * c + a * s;
        }
      }
    }
  }

  void silu_gate(const float* gate_up, std::int64_t rows, std::int64_t width, float* out) override {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < width; ++i) {
        const float g = gate_up[r * 2 * width + i];
        out[r * width + i] = g / (1 + std::exp(-g)) * gate_up[r * 2 * width + width + i];
      }
    }
  }
  void silu_gate_backward(const float* gate_up, const float* d_out, std::int64_t rows,
                          std::int64_t width, float* d_gate_up) override {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < width; ++i) {
        const float g = gate_up[r * 2 * width + i], u = gate_up[r * 2 * width + width + i];
        const float d = d_out[r * width + i], s = 1 / (1 + std::exp(-g));
        d_gate_up[r * 2 * width + i] = d * u * s * (1 + g * (1 - s));
        d_gate_up[r * 2 * width + width + i] = d * g * s;
      }
    }
  }

  void write_kv(ConstHeadsView keys, ConstHeadsView values, std::span<const SequenceRows> sequences,
                const KvPages& pages, std::int32_t layer) override {
    for (const SequenceRows& s : sequences) {
      for (std::int32_t i = 0; i < s.rows; ++i) {
        const std::int32_t page = s.pages[(s.past + i) / kPageTokens];
        const std::int32_t lane = (s.past + i) % kPageTokens;
        for (std::int32_t h = 0; h < pages.heads; ++h) {
          const float* k = keys.data + (s.first_row + i) * keys.row_stride + h * keys.width;
          const float* v = values.data + (s.first_row + i) * values.row_stride + h * values.width;
          for (std::int32_t d = 0; d < pages.head_dim; ++d) {
            pages.keys(page, layer, h)[d * kPageTokens + lane] = k[d];
            pages.values(page, layer, h)[lane * pages.head_dim + d] = v[d];
          }
        }
      }
    }
  }
  static float score(const float* q, const KvPages& pages, const SequenceRows& s, std::int32_t layer,
                     std::int32_t head, std::int32_t key, float scale) {
    const float* k = pages.keys(s.pages[key / kPageTokens], layer, head) + key % kPageTokens;
    float sum = 0;
    for (std::int32_t d = 0; d < pages.head_dim; ++d) sum += q[d] * k[d * kPageTokens];
    return sum * scale;
  }
  void attention(ConstHeadsView queries, std::span<const SequenceRows> sequences, const KvPages& pages,
                 std::int32_t layer, float scale, float* out, float* statistics) override {
    const std::int64_t heads = queries.heads, width = queries.width, group = heads / pages.heads;
    std::vector<float> scores;
    for (const SequenceRows& s : sequences) {
      for (std::int32_t i = 0; i < s.rows; ++i) {
        const std::int32_t n = s.past + i + 1;
        scores.resize(n);
        for (std::int64_t h = 0; h < heads; ++h) {
          const std::int64_t row = s.first_row + i;
          const auto kv = static_cast<std::int32_t>(h / group);
          const float* q = queries.data + row * queries.row_stride + h * width;
          float largest = -std::numeric_limits<float>::infinity();
          for (std::int32_t j = 0; j < n; ++j) {
            scores[j] = score(q, pages, s, layer, kv, j, scale);
            largest = std::max(largest, scores[j]);
          }
          float sum = 0;
          float* o = out + (row * heads + h) * width;
          zero(o, width);
          for (std::int32_t j = 0; j < n; ++j) {
            const float p = std::exp(scores[j] - largest);
            sum += p;
            const float* v = pages.values(s.pages[j / kPageTokens], layer, kv) + j % kPageTokens * width;
            for (std::int64_t d = 0; d < width; ++d) o[d] += p * v[d];
          }
          for (std::int64_t d = 0; d < width; ++d) o[d] /= sum;
          if (statistics) {
            statistics[(row * heads + h) * 2] = largest;
            statistics[(row * heads + h) * 2 + 1] = sum;
          }
        }
      }
    }
  }
  void attention_backward(ConstHeadsView queries, std::span<const SequenceRows> sequences,
                          const KvPages& pages, std::int32_t layer, float scale, const float* out,
                          const float* statistics, const float* d_out, HeadsView d_queries,
                          HeadsView d_keys, HeadsView d_values) override {
    const std::int64_t heads = queries.heads, width = queries.width, group = heads / pages.heads;
    for (const SequenceRows& s : sequences) {
      for (std::int32_t i = 0; i < s.rows; ++i) {
        const std::int64_t row = s.first_row + i;
        for (std::int64_t h = 0; h < heads; ++h) zero(d_queries.data + row * d_queries.row_stride + h * width, width);
        for (std::int64_t h = 0; h < pages.heads; ++h) {
          zero(d_keys.data + row * d_keys.row_stride + h * width, width);
          zero(d_values.data + row * d_values.row_stride + h * width, width);
        }
      }
      for (std::int32_t i = 0; i < s.rows; ++i) {
        for (std::int64_t h = 0; h < heads; ++h) {
          const std::int64_t row = s.first_row + i;
          const auto kv = static_cast<std::int32_t>(h / group);
          const float* q = queries.data + row * queries.row_stride + h * width;
          const float* o = out + (row * heads + h) * width;
          const float* d_o = d_out + (row * heads + h) * width;
          const float* stat = statistics + (row * heads + h) * 2;
          float* dq = d_queries.data + row * d_queries.row_stride + h * width;
          float delta = 0;
          for (std::int64_t d = 0; d < width; ++d) delta += o[d] * d_o[d];
          for (std::int32_t j = 0; j <= i; ++j) {
            const float p = std::exp(score(q, pages, s, layer, kv, j, scale) - stat[0]) / stat[1];
            const std::int32_t page = s.pages[j / kPageTokens], lane = j % kPageTokens;
            const float* v = pages.values(page, layer, kv) + lane * width;
            const float* k = pages.keys(page, layer, kv) + lane;
            float* dk = d_keys.data + (s.first_row + j) * d_keys.row_stride + kv * width;
            float* dv = d_values.data + (s.first_row + j) * d_values.row_stride + kv * width;
            float dp = 0;
            for (std::int64_t d = 0; d < width; ++d) dp += d_o[d] * v[d];
            const float ds = p * (dp - delta) * scale;
            for (std::int64_t d = 0; d < width; ++d) {
              dv[d] += p * d_o[d];
              dq[d] += ds * k[d * kPageTokens];
              dk[d] += ds * q[d];
            }
          }
        }
      }
    }
  }

  struct Softmax {
    double log_sum;
    double entropy;
  };
  static Softmax softmax(const float* logits, std::int64_t n, float temperature) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, weighted = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, double{logits[i] / temperature});
    for (std::int64_t i = 0; i < n; ++i) {
      const double z = double{logits[i] / temperature} - largest, e = std::exp(z);
      sum += e;
      weighted += e > 0 ? e * z : 0;
    }
    return {largest + std::log(sum), std::log(sum) - weighted / sum};
  }
  void head_log_probs(const float* hidden, std::int64_t rows, const PackedMatrix& head,
                      float temperature, const Token* targets, float* log_probs, float* log_sums,
                      float* entropies) override {
    std::vector<float> logits(static_cast<std::size_t>(head.rows()));
    for (std::int64_t r = 0; r < rows; ++r) {
      linear(hidden + r * head.columns(), 1, head, nullptr, logits.data(), false);
      const Softmax s = softmax(logits.data(), head.rows(), temperature);
      log_probs[r] = static_cast<float>(logits[targets[r]] / temperature - s.log_sum);
      log_sums[r] = static_cast<float>(s.log_sum);
      if (entropies) entropies[r] = static_cast<float>(s.entropy);
    }
  }
  void head_backward(const float* hidden, std::int64_t rows, const PackedMatrix& head,
                     const float* weight, float temperature, const Token* targets,
                     const float* log_sums, const float* g, float* d_hidden, float* d_weight) override {
    const std::int64_t n = head.rows(), k = head.columns();
    std::vector<float> logits(static_cast<std::size_t>(n));
    for (std::int64_t r = 0; r < rows; ++r) {
      linear(hidden + r * k, 1, head, nullptr, logits.data(), false);
      for (std::int64_t i = 0; i < n; ++i) {
        const float p = std::exp(logits[i] / temperature - log_sums[r]);
        logits[i] = g[r] / temperature * ((i == targets[r] ? 1 : 0) - p);
      }
      linear_backward_input(logits.data(), 1, weight, n, k, d_hidden + r * k, false);
      linear_backward_weight(logits.data(), hidden + r * k, 1, n, k, d_weight, nullptr);
    }
  }
  void head_logits(const float* hidden, std::int64_t rows, const PackedMatrix& head,
                   float* logits) override {
    linear(hidden, rows, head, nullptr, logits, false);
  }
  void sample(float* logits, std::int64_t rows, std::int64_t vocabulary, const Sampling* sampling,
              const double* uniforms, Token* tokens, float* log_probs) override {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* z = logits + r * vocabulary;
      const Sampling& how = sampling[r];
      const float temperature = how.temperature == 0 ? 1 : how.temperature;
      if (how.temperature == 0) {
        tokens[r] = static_cast<Token>(std::max_element(z, z + vocabulary) - z);
      } else {
        filter(z, vocabulary, how);
        const double log_sum = softmax(z, vocabulary, temperature).log_sum;
        double left = uniforms[r];
        tokens[r] = 0;
        for (std::int64_t i = 0; i < vocabulary; ++i) {
          const double p = std::exp(double{z[i] / temperature} - log_sum);
          if (!(p > 0)) continue;
          tokens[r] = static_cast<Token>(i);
          if ((left -= p) < 0) break;
        }
      }
      log_probs[r] = static_cast<float>(z[tokens[r]] / temperature - softmax(z, vocabulary, temperature).log_sum);
    }
  }
  static void filter(float* z, std::int64_t n, const Sampling& how) {
    const float off = -std::numeric_limits<float>::infinity();
    std::vector<float> sorted(z, z + n);
    std::sort(sorted.begin(), sorted.end());
    if (how.top_k > 0 && how.top_k < n) {
      const float bound = sorted[n - how.top_k];
      std::replace_if(z, z + n, [&](float x) { return x < bound; }, off);
      std::replace_if(sorted.begin(), sorted.end(), [&](float x) { return x < bound; }, off);
    }
    if (how.top_p < 1) {
      const double log_sum = softmax(z, n, how.temperature).log_sum;
      double mass = 0;
      std::int64_t i = 0;
      while (i + 1 < n && (mass += std::exp(double{sorted[i] / how.temperature} - log_sum)) <= 1 - double{how.top_p}) ++i;
      std::replace_if(z, z + n, [&](float x) { return x < sorted[i]; }, off);
    }
    if (how.min_p > 0) {
      const float bound = sorted[n - 1] + how.temperature * std::log(how.min_p);
      std::replace_if(z, z + n, [&](float x) { return x < bound; }, off);
    }
  }

  double sum_of_squares(const float* x, std::int64_t n) override {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
    return sum;
  }
  void adamw(float* weights, const float* gradients, float* first_moments, float* second_moments,
             std::int64_t n, const AdamWStep& step) override {
    const double correction1 = 1 - std::pow(double{step.beta1}, static_cast<double>(step.step));
    const double correction2 = 1 - std::pow(double{step.beta2}, static_cast<double>(step.step));
    const float rate = static_cast<float>(step.learning_rate / correction1);
    const float root = static_cast<float>(1 / std::sqrt(correction2));
    for (std::int64_t i = 0; i < n; ++i) {
      const float g = gradients[i] * step.gradient_scale;
      float& m = first_moments[i];
      float& v = second_moments[i];
      m = step.beta1 * m + (1 - step.beta1) * g;
      v = step.beta2 * v + (1 - step.beta2) * g * g;
      weights[i] = weights[i] * (1 - step.learning_rate * step.weight_decay) -
                   rate * m / (std::sqrt(v) * root + step.epsilon);
    }
  }

 private:
  float operand(float x) const { return compute_ == ComputeType::bf16 ? round_bf16(x) : x; }
  ComputeType compute_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(ComputeType compute) {
  return std::make_unique<CpuBackend>(compute);
}

const char* instruction_set() { return "portable"; }

}  // namespace hindsearch
