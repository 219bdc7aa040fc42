#include <algorithm>
#include <bit>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/quad.h"

namespace hindsearch::cuda {
namespace {

constexpr int kThreads = 256;

// `lanes` threads, a power of two, share a row.
template <bool kWhole>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(HeadsView x, const std::int32_t* positions, const float* cosines,
                const float* sines, float sign, int lanes) {
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / lanes) + threadIdx.x / lanes;
  if (row >= x.rows) return;
  const int half = static_cast<int>(x.width) / 2, quads = (half + kQuad - 1) / kQuad,
            pairs = static_cast<int>(x.heads) * quads;
  const std::int64_t table = std::int64_t{positions[row]} * half;
  float* const data = x.data + row * x.row_stride;
  for (int pair = static_cast<int>(threadIdx.x) % lanes; pair < pairs; pair += lanes) {
    const int head = pair / quads, i = pair % quads * kQuad, left = half - i;
    float* const low = data + head * x.width + i;
    float* const high = low + half;
    const Quad a = load_quad(low, left, kWhole), b = load_quad(high, left, kWhole),
               cosine = load_quad(cosines + table + i, left, kWhole),
               sine = load_quad(sines + table + i, left, kWhole);
    Quad to_low, to_high;
#pragma unroll
    for (int c = 0; c < kQuad; ++c) {
      const float s = sine.at[c] * sign;
      to_low.at[c] = a.at[c] * cosine.at[c] - b.at[c] * s;
      to_high.at[c] = b.at[c] * cosine.at[c] + a.at[c] * s;
    }
    store_quad(low, left, kWhole, to_low);
    store_quad(high, left, kWhole, to_high);
  }
}

}  // namespace

void rope(const Context& context, const HeadsView& x, const std::int32_t* positions,
          const float* cosines, const float* sines, bool inverse) {
  const std::int64_t half = x.width / 2;
  const auto pairs = static_cast<std::uint64_t>(x.heads * ceil_div(half, kQuad));
  const auto lanes = static_cast<int>(std::min<std::uint64_t>(std::bit_ceil(pairs), kThreads));
  const bool whole = whole_quads({half, x.row_stride}, {x.data, cosines, sines});
  launch(context.stream, whole ? rope_kernel<true> : rope_kernel<false>,
         dim3(static_cast<unsigned>(ceil_div(x.rows, kThreads / lanes))), kThreads, 0, x, positions,
         cosines, sines, inverse ? -1.0f : 1.0f, lanes);
}

}  // namespace hindsearch::cuda
