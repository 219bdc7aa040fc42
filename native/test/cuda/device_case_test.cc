// The fixture, and what it stands on: copies, working memory, and matrix products by cuBLAS.
#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {
namespace {

TEST(numbers_go_up_and_come_down) {
  const DeviceCase device(ComputeType::f32);
  // More than the staging ring holds, and a length that is no multiple of anything.
  Floats x(2'200'001);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  CHECK(same_bits(device.upload(x).download(), x));
  const std::vector<Token> tokens = tokens_below(13, 100, 2);
  CHECK(device.upload(tokens).download() == tokens);
}

// Every combination of stored and transposed operands, with strides, added or not.
TEST(matrix_products) {
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    const DeviceCase device(compute);
    constexpr std::int64_t m = 5, n = 7, k = 11, stride = 13, c_stride = 9;
    for (int which = 0; which < 8; ++which) {
      const bool a_transposed = (which & 1) != 0, b_transposed = (which & 2) != 0,
                 accumulate = (which & 4) != 0;
      const auto size = [](std::int64_t rows) { return static_cast<std::size_t>(rows * stride); };
      const Floats a = normal(size(a_transposed ? k : m), 1),
                   b = normal(size(b_transposed ? n : k), 2);
      const Floats before = normal(m * c_stride, 3);
      const auto at = [&](const Floats& x, std::int64_t row, std::int64_t column, bool transposed) {
        const float value =
            x[static_cast<std::size_t>(transposed ? column * stride + row : row * stride + column)];
        return compute == ComputeType::f32 ? value : cuda::to_float(cuda::to_bf16(value));
      };
      std::vector<double> expected(before.begin(), before.end());
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = accumulate ? before[static_cast<std::size_t>(i * c_stride + j)] : 0;
          for (std::int64_t p = 0; p < k; ++p) {
            sum += double{at(a, i, p, a_transposed)} * at(b, p, j, b_transposed);
          }
          expected[static_cast<std::size_t>(i * c_stride + j)] = sum;
        }
      }
      const auto c = device.upload(before);
      const auto multiply = [&](const void* left, const void* right) {
        device.context().cublas.multiply(compute, m, n, k, {left, stride, a_transposed},
                                         {right, stride, b_transposed}, c.data(), c_stride,
                                         accumulate);
        // Eleven products and sums in f32.
        CHECK(relative_error(c.download(), expected) < 1e-6);
      };
      if (compute == ComputeType::f32) {
        const auto left = device.upload(a), right = device.upload(b);
        multiply(left.data(), right.data());
      } else {
        const auto left = device.upload_bf16(a), right = device.upload_bf16(b);
        multiply(left.data(), right.data());
      }
    }
  }
}

}  // namespace
}  // namespace hindsearch::testing
