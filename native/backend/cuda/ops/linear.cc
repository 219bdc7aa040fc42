#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/runtime/cublas.h"

namespace hindsearch::cuda {
namespace {

// Activations as an operand of a product: as they are, or as bf16 in `slot`.
const void* operand(const Context& context, const float* x, std::int64_t n, Slot slot) {
  if (context.compute == ComputeType::f32) return x;
  bf16* rounded = context.workspace.take<bf16>(slot, n);
  to_bf16(context, x, rounded, n);
  return rounded;
}

}  // namespace

void linear(const Context& context, const float* x, std::int64_t rows, const Matrix& weight,
            const float* bias, float* y, bool accumulate) {
  if (rows == 0) return;
  const std::int64_t n = weight.n, k = weight.k;
  // The product adds to what is there, so the bias costs one write of y and no read.
  if (bias) add_bias(context, bias, y, rows, n, !accumulate);
  context.cublas.multiply(context.compute, rows, n, k,
                          {operand(context, x, rows * k, Slot::left), k}, {weight.data, k, true}, y,
                          n, accumulate || bias);
}

void linear_backward_input(const Context& context, const float* d_y, std::int64_t rows,
                           const Matrix& weight, float* d_x, bool accumulate) {
  if (rows == 0) return;
  const std::int64_t n = weight.n, k = weight.k;
  context.cublas.multiply(context.compute, rows, k, n,
                          {operand(context, d_y, rows * n, Slot::left), n}, {weight.data, k}, d_x,
                          k, accumulate);
}

void linear_backward_weight(const Context& context, const float* d_y, const float* x,
                            std::int64_t rows, std::int64_t n, std::int64_t k, float* d_weight,
                            float* d_bias) {
  if (rows == 0) return;
  context.cublas.multiply(context.compute, n, k, rows,
                          {operand(context, d_y, rows * n, Slot::left), n, true},
                          {operand(context, x, rows * k, Slot::right), k}, d_weight, k, true);
  if (d_bias) column_sums(context, d_y, rows, n, d_bias);
}

}  // namespace hindsearch::cuda
