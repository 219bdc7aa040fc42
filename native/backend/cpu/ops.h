// The ops that need more than a loop over rows, one file each. Arguments as in Backend.
#pragma once

#include <span>

#include "native/backend/backend.h"
#include "native/backend/cpu/gemm.h"
#include "native/backend/cpu/kernels.h"

namespace hindsearch::cpu {

// linear.cc
void linear_backward_input(const GemmKernels& kernels, const Numbers& d_y, std::int64_t rows,
                           const float* weight, std::int64_t n, std::int64_t k, float* d_x);
void linear_backward_weight(const Kernels& kernels, ComputeType compute, const Numbers& d_y,
                            const Numbers& x, std::int64_t rows, std::int64_t n, std::int64_t k,
                            float* d_weight, float* d_bias);

// gate.cc
Operand silu_gate(const Kernels& kernels, ComputeType compute, const float* gate_up,
                  std::int64_t rows, std::int64_t width, float* out);
Backend::GateGradient silu_gate_backward(const Kernels& kernels, ComputeType compute,
                                         float* gate_up, float* d_out, std::int64_t rows,
                                         std::int64_t width);

// norm.cc
Operand rms_norm_operand(const Kernels& kernels, ComputeType compute, const float* x,
                         std::int64_t rows, std::int64_t width, const float* weight, float epsilon,
                         float* out, float* inv_rms);
void rms_norm_backward(const RowKernels& kernels, const ConstHeadsView& x, const float* inv_rms,
                       const float* weight, const ConstHeadsView& d_y, const HeadsView& d_x,
                       float* d_weight);

// embedding.cc
void gather(const std::int32_t* rows, std::int64_t count, const float* x, std::int64_t width,
            float* out);
void scatter_add(const RowKernels& kernels, const std::int32_t* rows, std::int64_t count,
                 const float* d_out, std::int64_t width, float* d_x);

// attention.cc, attention_backward.cc
void write_kv(const ConstHeadsView& keys, const ConstHeadsView& values,
              std::span<const SequenceRows> sequences, const KvPages& pages, std::int32_t layer);
Operand attention(const Kernels& kernels, ComputeType compute, const ConstHeadsView& queries,
                  std::span<const SequenceRows> sequences, const KvPages& pages, std::int32_t layer,
                  float scale, float* out, float* statistics);
void attention_backward(const Kernels& kernels, const ConstHeadsView& queries,
                        std::span<const SequenceRows> sequences, const KvPages& pages,
                        std::int32_t layer, float scale, const float* out, const float* statistics,
                        const float* d_out, const HeadsView& d_queries, const HeadsView& d_keys,
                        const HeadsView& d_values);

// head.cc
void head_log_probs(const Kernels& kernels, ComputeType compute, const Numbers& hidden,
                    std::int64_t rows, const Panels& head, float temperature, const Token* targets,
                    float* log_probs, float* log_sums, float* entropies);
void head_backward(const Kernels& kernels, ComputeType compute, const Numbers& hidden,
                   std::int64_t rows, const Panels& head, const float* weight, float temperature,
                   const Token* targets, const float* log_sums, const float* g, float* d_hidden,
                   float* d_weight);

// sample.cc
void sample(const RowKernels& kernels, float* logits, std::int64_t rows, std::int64_t vocabulary,
            const Sampling* sampling, const double* uniforms, Token* tokens, float* log_probs);

// optimizer.cc
double sum_of_squares(const RowKernels& kernels, const float* x, std::int64_t n);
void adamw(const RowKernels& kernels, float* weights, const float* gradients, float* first_moments,
           float* second_moments, std::int64_t n, const AdamWStep& step);

}  // namespace hindsearch::cpu
