// All kernels of one instruction set as one constant. Constant-initialised: code of this
// translation unit must not run before the processor was asked what it can do.
#pragma once

#include "native/backend/cpu/attention_kernels.h"
#include "native/backend/cpu/gemm_kernels.h"
#include "native/backend/cpu/row_kernels.h"
#include "native/backend/cpu/sample_kernels.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

constexpr RowKernels row_kernels() {
  return {
      .attention_rows = kAttentionRows,
      .add = add,
      .add_rows = add_rows,
      .sum_of_squares = sum_of_squares,
      .adamw = adamw,
      .rms_norm = rms_norm,
      .rms_norm_backward = rms_norm_backward,
      .rope = rope,
      .silu_gate = silu_gate,
      .silu_gate_backward = silu_gate_backward,
      .attention = attention<>,
      .attention_gradient = attention_gradient,
      .dot = dot,
      .exponentials = exponentials,
      .chunk_statistics = chunk_statistics<true>,
      .chunk_sum = chunk_statistics<false>,
      .softmax_gradient = softmax_gradient,
      .row_maximum = row_maximum,
      .masses = masses,
      .bracket_logits = bracket<false>,
      .bracket_masses = bracket<true>,
      .collect = collect,
      .sum_from = sum_from,
  };
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
