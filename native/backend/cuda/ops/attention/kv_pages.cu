// Keys and values of a pass's rows into pages.
#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/attention/tiles.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;

// One thread an element: consecutive threads write consecutive elements of a page's row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    write_kv_kernel(ConstHeadsView keys, ConstHeadsView values, Pass pass, Pages<T> pages,
                    std::int32_t layer) {
  const std::int32_t row = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t index = pass.row_sequence[row];
  if (index < 0) return;
  const PassSequence sequence = pass.sequences[index];
  const std::int32_t key = sequence.past + row - sequence.first_row;
  const std::int32_t page = pass.pages[sequence.first_page + key / kPageTokens];
  const std::int32_t width = pages.head_dim;
  const std::int64_t lane = std::int64_t{key % kPageTokens} * width;
  const float* from_keys = keys.data + row * keys.row_stride;
  const float* from_values = values.data + row * values.row_stride;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < pages.heads * width;
       i += kThreads) {
    const std::int32_t head = i / width, d = i % width;
    pages.keys(page, layer, head)[lane + d] = narrow<T>(from_keys[i]);
    pages.values(page, layer, head)[lane + d] = narrow<T>(from_values[i]);
  }
}

}  // namespace

void write_kv(const Context& context, const ConstHeadsView& keys, const ConstHeadsView& values,
              const Pass& pass, const KvPages& pages, std::int32_t layer) {
  const auto write = [&]<class T>(const Pages<T>& typed) {
    launch(context.stream, write_kv_kernel<T>, dim3(static_cast<unsigned>(pass.rows)), kThreads, 0,
           keys, values, pass, typed, layer);
  };
  if (context.compute == ComputeType::bf16) {
    write(typed_pages<bf16>(pages));
  } else {
    write(typed_pages<float>(pages));
  }
}

}  // namespace hindsearch::cuda
