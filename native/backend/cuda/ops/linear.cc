#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/runtime/cublas.h"

namespace hindsearch::cuda {
namespace {

Factor transposed(Factor x) {
  x.transposed = true;
  return x;
}

}  // namespace

Factor factor(const Context& context, const Operand& x, std::int64_t rows, std::int64_t width,
              Slot slot) {
  if (context.compute == ComputeType::f32) return {x.data, x.stride};
  if (x.rounded) return {x.data, 2 * x.stride};
  bf16* const rounded = context.workspace.take<bf16>(slot, rows * width);
  to_bf16(context, x.data, rounded, rows * width);
  return {rounded, width};
}

void linear(const Context& context, const Operand& x, std::int64_t rows, const Matrix& weight,
            const Base& base, float* y) {
  if (rows == 0) return;
  const std::int64_t n = weight.n, k = weight.k;
  // The product adds to what is there, so a bias costs one write of y and no read.
  if (base.data && !base.rows) {
    broadcast(context, base.data, y, rows, n);
  } else if (base.data && base.data != y) {
    check(cudaMemcpyAsync(y, base.data, static_cast<std::size_t>(rows * n) * sizeof(float),
                          cudaMemcpyDeviceToDevice, context.stream),
          "a copy on the device");
  }
  context.cublas.multiply(context.compute, rows, n, k, factor(context, x, rows, k, Slot::left),
                          {weight.data, k, true}, y, n, base.data != nullptr);
}

void linear_backward_input(const Context& context, const Operand& d_y, std::int64_t rows,
                           const Matrix& weight, float* d_x) {
  if (rows == 0) return;
  const std::int64_t n = weight.n, k = weight.k;
  context.cublas.multiply(context.compute, rows, k, n, factor(context, d_y, rows, n, Slot::left),
                          {weight.data, k}, d_x, k, false);
}

void linear_backward_weight(const Context& context, const Operand& d_y, const Operand& x,
                            std::int64_t rows, std::int64_t n, std::int64_t k, float* d_weight,
                            float* d_bias) {
  if (rows == 0) return;
  context.cublas.multiply(context.compute, n, k, rows,
                          transposed(factor(context, d_y, rows, n, Slot::left)),
                          factor(context, x, rows, k, Slot::right), d_weight, k, true);
  if (d_bias) column_sums(context, d_y.data, rows, n, d_bias);
}

}  // namespace hindsearch::cuda
