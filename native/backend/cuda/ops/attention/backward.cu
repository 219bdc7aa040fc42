// Gradient of causal attention (attention_backward.h): what comes before its two passes.
#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/attention/backward.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;

// terms[r, h], one warp each. In bf16 the passes multiply with rounded queries and do;
// they are rounded here once, into rows of `row_width` numbers with zeros at the end. do . o is of
// the rounded do, so that what should cancel in do . v - do . o does: in a row with one key but for
// the order of the additions.
template <class T>
__global__ void __launch_bounds__(kThreads)
    prepare_kernel(ConstHeadsView queries, const std::int32_t* row_sequence, const float* out,
                   const float* d_out, const float* statistics, float2* terms, T* narrow_queries,
                   T* narrow_d_out, std::int32_t row_width) {
  constexpr bool kNarrow = !std::is_same_v<T, float>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t index =
      std::int64_t{blockIdx.x} * (kThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t row = index / queries.heads, head = index % queries.heads;
  if (row >= queries.rows || row_sequence[row] < 0) return;
  const float* query = queries.data + row * queries.row_stride + head * queries.width;
  out += index * queries.width;
  d_out += index * queries.width;
  float delta = 0;
  for (std::int32_t i = lane; i < (kNarrow ? row_width : queries.width); i += kWarp) {
    const bool inside = i < queries.width;
    float gradient = inside ? d_out[i] : 0;
    if constexpr (kNarrow) {
      narrow_queries[index * row_width + i] = narrow<T>(inside ? query[i] : 0);
      narrow_d_out[index * row_width + i] = narrow<T>(gradient);
      gradient = to_float(narrow<T>(gradient));
    }
    if (inside) delta = fmaf(gradient, out[i], delta);
  }
#pragma unroll
  for (int other = kWarp / 2; other > 0; other /= 2) delta += __shfl_xor_sync(~0u, delta, other);
  if (lane == 0) {
    const float largest = statistics[2 * index], sum = statistics[2 * index + 1];
    terms[index] = make_float2(largest + logf(sum), delta);
  }
}

}  // namespace

void attention_backward(const Context& context, const ConstHeadsView& queries, const Pass& pass,
                        const KvPages& pages, std::int32_t layer, float scale, const float* out,
                        const float* statistics, const float* d_out, const HeadsView& d_queries,
                        const HeadsView& d_keys, const HeadsView& d_values) {
  const std::int64_t cells = queries.rows * queries.heads;
  const Temporary<float2> terms(context, cells);
  const auto heads = static_cast<std::int32_t>(queries.heads),
             width = static_cast<std::int32_t>(queries.width);
  const auto run = [&]<class T>(const HeadRows<T>& own_queries, const HeadRows<T>& own_d_out,
                                std::int32_t row_width, bool vectors, T* narrow_queries,
                                T* narrow_d_out) {
    launch(context.stream, prepare_kernel<T>,
           dim3(static_cast<unsigned>(ceil_div(cells, kThreads / kWarp))), kThreads, 0, queries,
           pass.row_sequence, out, d_out, statistics, terms.data(), narrow_queries, narrow_d_out,
           row_width);
    attention_gradient(context, AttentionGradient<T>{pass, typed_pages<T>(pages), layer, scale,
                                                     heads, heads / pages.heads, own_queries,
                                                     own_d_out, row_width, vectors, statistics,
                                                     terms.data(), d_queries, d_keys, d_values});
  };
  if (context.compute == ComputeType::bf16) {
    constexpr int kVector = kTileVector<bf16>;
    const auto row_width = static_cast<std::int32_t>(ceil_div(width, kVector) * kVector);
    const Temporary<bf16> narrow_queries(context, cells * row_width);
    const Temporary<bf16> narrow_d_out(context, cells * row_width);
    const std::int64_t stride = std::int64_t{heads} * row_width;
    run(HeadRows<bf16>{narrow_queries.data(), stride, row_width},
        HeadRows<bf16>{narrow_d_out.data(), stride, row_width}, row_width, true,
        narrow_queries.data(), narrow_d_out.data());
  } else {
    const std::int64_t stride = std::int64_t{heads} * width;
    run(HeadRows<float>{queries.data, queries.row_stride, width},
        HeadRows<float>{d_out, stride, width}, width,
        vector_rows<float>(queries.data, queries.row_stride, width) &&
            vector_rows<float>(d_out, stride, width),
        static_cast<float*>(nullptr), static_cast<float*>(nullptr));
  }
}

}  // namespace hindsearch::cuda
