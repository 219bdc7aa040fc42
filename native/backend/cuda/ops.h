// The ops, one file each in ops/; arguments as in Backend unless a comment says otherwise. Pointers
// are on the device but where a name begins with host_. Nothing waits for the device unless it says
// so.
//
// "Recordable": may run inside a graph that is being recorded, so it takes working memory from the
// workspace alone, reads nothing of the host and never waits.
#pragma once

#include "native/backend/cuda/pass.h"
#include "native/backend/cuda/runtime/context.h"
#include "native/backend/cuda/runtime/cublas.h"

namespace hindsearch::cuda {

// elementwise.cu (recordable)
void zero(const Context& context, float* x, std::int64_t n);
void add(const Context& context, const float* x, float* y, std::int64_t n);  // y += x
void to_bf16(const Context& context, const float* x, bf16* y, std::int64_t n);
// y[r, i] = bias[i]
void broadcast(const Context& context, const float* bias, float* y, std::int64_t rows,
               std::int64_t width);
// Adds the sums over rows of x[R, width] to out, in an order fixed by R alone. Not recordable.
void column_sums(const Context& context, const float* x, std::int64_t rows, std::int64_t width,
                 float* out);

// embedding.cu; gather is recordable.
void gather(const Context& context, const Token* rows, std::int64_t count, const float* table,
            std::int64_t width, float* out);
// Adds rows of d_out, in ascending order for each id.
void scatter_add(const Context& context, const TokenRuns& runs, const float* d_out,
                 std::int64_t width, float* d_table);

// norm.cu; the forward is recordable. What is written for products alone is bf16 where
// context.compute is.
void rms_norm(const Context& context, const ConstHeadsView& x, const float* weight, float epsilon,
              const HeadsView& y, float* inv_rms);
Operand rms_norm_operand(const Context& context, const float* x, std::int64_t rows,
                         std::int64_t width, const float* weight, float epsilon, float* out,
                         float* inv_rms);
void rms_norm_backward(const Context& context, const ConstHeadsView& x, const float* inv_rms,
                       const float* weight, const ConstHeadsView& d_y, const HeadsView& d_x,
                       float* d_weight);

// rope.cu (recordable)
void rope(const Context& context, const HeadsView& x, const std::int32_t* positions,
          const float* cosines, const float* sines, bool inverse);

// gate.cu; the forward is recordable, and writes as the norm does. The backward writes floats: a
// row's gradient in bf16 does not fit beside what other threads have yet to read of it.
Operand silu_gate(const Context& context, const float* gate_up, std::int64_t rows,
                  std::int64_t width, float* out);
void silu_gate_backward(const Context& context, float* gate_up, float* d_out, std::int64_t rows,
                        std::int64_t width);

// linear.cc. `weight` [N, K] holds bf16 or float as context.compute says, and so do rounded
// operands. linear is recordable.
struct Matrix {
  const void* data;
  std::int64_t n, k;
};
// Rows of `width` numbers in memory of as many floats, as an op writes them for products: each in
// half of its floats where they are bf16.
struct Rounded {
  bf16* data;
  std::int64_t stride;  // of bf16
  Operand operand() const { return {reinterpret_cast<const float*>(data), stride / 2, true}; }
};
inline Rounded rounded_rows(float* out, std::int64_t width) {
  return {reinterpret_cast<bf16*>(out), ceil_div(width, 2) * 2};
}
// Rows of `width` numbers as a factor of a product: as they are, or as bf16 in `slot`.
Factor factor(const Context& context, const Operand& x, std::int64_t rows, std::int64_t width,
              Slot slot);
void linear(const Context& context, const Operand& x, std::int64_t rows, const Matrix& weight,
            const Base& base, float* y);
void linear_backward_input(const Context& context, const Operand& d_y, std::int64_t rows,
                           const Matrix& weight, float* d_x);
void linear_backward_weight(const Context& context, const Operand& d_y, const Operand& x,
                            std::int64_t rows, std::int64_t n, std::int64_t k, float* d_weight,
                            float* d_bias);

// attention/: kv_pages.cu, decode.cu, forward.cu, backward.cu. `pages` hold bf16 or float as
// context.compute says. The first two are recordable; `attention` is, for a pass without tiles.
void write_kv(const Context& context, const ConstHeadsView& keys, const ConstHeadsView& values,
              const Pass& pass, const KvPages& pages, std::int32_t layer);
// The sequences with one new row.
void attention_decode(const Context& context, const ConstHeadsView& queries, const Pass& pass,
                      const KvPages& pages, std::int32_t layer, float scale, float* out,
                      float* statistics);
// Both kinds of sequences.
void attention(const Context& context, const ConstHeadsView& queries, const Pass& pass,
               const KvPages& pages, std::int32_t layer, float scale, float* out,
               float* statistics);
void attention_backward(const Context& context, const ConstHeadsView& queries, const Pass& pass,
                        const KvPages& pages, std::int32_t layer, float scale, const float* out,
                        const float* statistics, const float* d_out, const HeadsView& d_queries,
                        const HeadsView& d_keys, const HeadsView& d_values);

// head.cu
void head_log_probs(const Context& context, const Operand& hidden, std::int64_t rows,
                    const Matrix& head, float temperature, const Token* host_targets,
                    float* log_probs, float* log_sums, float* entropies);
void head_backward(const Context& context, const Operand& hidden, std::int64_t rows,
                   const Matrix& head, float temperature, const Token* host_targets,
                   const float* log_sums, const float* g, float* d_hidden, float* d_weight);

// sampling/sample.cu. Returns when tokens and log-probs are on the host, with one copy.
void sample(const Context& context, float* logits, std::int64_t rows, std::int64_t vocabulary,
            const Sampling* host_sampling, const double* host_uniforms, Token* host_tokens,
            float* host_log_probs);

// optimizer.cu; sum_of_squares waits for its result.
double sum_of_squares(const Context& context, const float* x, std::int64_t n);
void adamw(const Context& context, float* weights, const float* gradients, float* first_moments,
           float* second_moments, std::int64_t n, const AdamWStep& step);

}  // namespace hindsearch::cuda
