// The gate of the MLP, for the products behind it.
#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/rounded_rows.h"

namespace hindsearch::cpu {

Operand silu_gate(const Kernels& kernels, ComputeType compute, const float* gate_up,
                  std::int64_t rows, std::int64_t width, float* out) {
  const GemmKernels& gemm = kernels.gemm(compute);
  const auto gate = kernels.rows->silu_gate;
  const RoundedRows rounded(gemm, out, width);
  const bool rounds = RoundedRows::fit(gemm, width);
  parallel_ranges(rows, 8 * width, [&](std::int64_t begin, std::int64_t end) {
    float* const row = rounds ? scratch<float>(Slot::rows, width) : nullptr;
    for (std::int64_t r = begin; r < end; ++r) {
      gate(gate_up + r * 2 * width, width, rounds ? row : out + r * width);
      if (rounds) rounded.store(r, row);
    }
  });
  return rounds ? rounded.operand() : as_operand(out, width);
}

Backend::GateGradient silu_gate_backward(const Kernels& kernels, ComputeType compute,
                                         float* gate_up, float* d_out, std::int64_t rows,
                                         std::int64_t width) {
  const GemmKernels& gemm = kernels.gemm(compute);
  const auto backward = kernels.rows->silu_gate_backward;
  // Each row at the beginning of its floats, so that no thread writes what another has yet to read.
  const RoundedRows d_gate_up(gemm, gate_up, 2 * width, 2 * width), out(gemm, d_out, width, width);
  const bool rounds = RoundedRows::fit(gemm, width);
  parallel_ranges(rows, 12 * width, [&](std::int64_t begin, std::int64_t end) {
    float* const row = rounds ? scratch<float>(Slot::rows, 3 * width) : nullptr;
    for (std::int64_t r = begin; r < end; ++r) {
      float *const gates = gate_up + r * 2 * width, *const gradient = d_out + r * width;
      float* const d_gates = rounds ? row : gates;
      float* const activation = rounds ? row + 2 * width : gradient;
      backward(gates, gradient, width, d_gates, activation);
      if (!rounds) continue;
      d_gate_up.store(r, d_gates);
      out.store(r, activation);
    }
  });
  if (!rounds) return {as_operand(gate_up, 2 * width), as_operand(d_out, width)};
  return {d_gate_up.operand(), out.operand()};
}

}  // namespace hindsearch::cpu
