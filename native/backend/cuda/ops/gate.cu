#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/quad.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;

// expf, not the faster __expf: a rollout's log-probs are compared with other engines'.
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Where the thread's quad is: block b works on piece b % pieces of row b / pieces.
struct Place {
  std::int64_t row;
  std::int64_t i;
};
__device__ __forceinline__ Place place(unsigned pieces) {
  return {blockIdx.x / pieces,
          (std::int64_t{blockIdx.x % pieces} * kThreads + threadIdx.x) * kQuad};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    silu_gate_kernel(const float* gate_up, std::int64_t width, T* out, std::int64_t out_stride,
                     unsigned pieces, bool whole) {
  const auto [row, i] = place(pieces);
  const std::int64_t left = width - i;
  if (left <= 0) return;
  const float* from = gate_up + row * 2 * width + i;
  const Quad gate = load_quad(from, left, whole), up = load_quad(from + width, left, whole);
  Quad y;
#pragma unroll
  for (int c = 0; c < kQuad; ++c) y.at[c] = gate.at[c] * sigmoid(gate.at[c]) * up.at[c];
  store_quad(out + row * out_stride + i, left, whole, y);
}

__global__ void __launch_bounds__(kThreads)
    silu_gate_backward_kernel(float* gate_up, float* d_out, std::int64_t width, unsigned pieces,
                              bool whole) {
  const auto [row, i] = place(pieces);
  const std::int64_t left = width - i;
  if (left <= 0) return;
  float* const gates = gate_up + row * 2 * width + i;
  float* const out = d_out + row * width + i;
  const Quad gate = load_quad(gates, left, whole), up = load_quad(gates + width, left, whole),
             d_y = load_quad(out, left, whole);
  Quad d_gate, d_up, y;
#pragma unroll
  for (int c = 0; c < kQuad; ++c) {
    const float g = gate.at[c], u = up.at[c], d = d_y.at[c], s = sigmoid(g);
    d_gate.at[c] = d * u * s * fmaf(g, 1.0f - s, 1.0f);
    d_up.at[c] = d * g * s;
    y.at[c] = g * s * u;
  }
  store_quad(gates, left, whole, d_gate);
  store_quad(gates + width, left, whole, d_up);
  store_quad(out, left, whole, y);
}

std::int64_t pieces_of(std::int64_t width) { return ceil_div(width, kThreads * kQuad); }

template <class T>
void launch_silu_gate(const Context& context, const float* gate_up, std::int64_t rows,
                      std::int64_t width, T* out, std::int64_t out_stride) {
  const std::int64_t pieces = pieces_of(width);
  launch(context.stream, silu_gate_kernel<T>, dim3(static_cast<unsigned>(rows * pieces)), kThreads,
         0, gate_up, width, out, out_stride, pieces,
         whole_quads({width, out_stride}, {gate_up, out}));
}

}  // namespace

Operand silu_gate(const Context& context, const float* gate_up, std::int64_t rows,
                  std::int64_t width, float* out) {
  if (context.compute == ComputeType::f32) {
    launch_silu_gate(context, gate_up, rows, width, out, width);
    return as_operand(out, width);
  }
  const Rounded y = rounded_rows(out, width);
  launch_silu_gate(context, gate_up, rows, width, y.data, y.stride);
  return y.operand();
}

void silu_gate_backward(const Context& context, float* gate_up, float* d_out, std::int64_t rows,
                        std::int64_t width) {
  const std::int64_t pieces = pieces_of(width);
  launch(context.stream, silu_gate_backward_kernel, dim3(static_cast<unsigned>(rows * pieces)),
         kThreads, 0, gate_up, d_out, width, pieces, whole_quads({width}, {gate_up, d_out}));
}

}  // namespace hindsearch::cuda
