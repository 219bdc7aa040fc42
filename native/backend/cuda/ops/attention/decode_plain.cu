// The f32 twin of decode.cu, without tensor cores: the same chunks, pages and warps.
#include "native/backend/cuda/ops/attention/decode.h"

namespace hindsearch::cuda {
namespace {

constexpr int kWeightStride = kPageTokens + 1;

template <int kHead>
constexpr int kQueryFloats = kDecodeHeads * kTileStride<float, kHead>;
constexpr int kWeightFloats = kDecodeWarps * kDecodeHeads * kWeightStride;

// For scores a lane has one key of the page and every second float of it, for values every 32nd
// column from its own number on.
template <int kHead>
__global__ void __launch_bounds__(kDecodeWarps* kWarp, 2)
    decode_plain_kernel(AttentionArguments arguments, Pages<float> pages, DecodePartials partials) {
  constexpr int kStride = kTileStride<float, kHead>, kColumns = kHead / 32;
  const DecodeBlock block = decode_block(arguments);
  if (block.first >= block.end) return;
  const ConstHeadsView& queries = arguments.queries;
  const std::int32_t width = pages.head_dim;
  float* const query_tile = dynamic_shared<float>();
  const float* query = queries.data + block.sequence.first_row * queries.row_stride +
                       block.first_head * queries.width;
  load_tile<kHead, kDecodeHeads>(
      [&](int i) -> const float* { return i < block.heads ? query + i * width : nullptr; }, width,
      vector_rows<float>(queries.data, queries.row_stride, width), query_tile);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* const weights = query_tile + kQueryFloats<kHead> + warp * kDecodeHeads * kWeightStride;
  const DecodeResults results =
      decode_results<kHead>(query_tile + kQueryFloats<kHead> + kWeightFloats, block.heads);
  __syncthreads();

  const int own_key = lane % kPageTokens, parity = lane / kPageTokens;
  const std::int32_t* const table = arguments.pass.pages + block.sequence.first_page;
  float largest[kDecodeHeads], sum[kDecodeHeads], sums[kDecodeHeads][kColumns] = {};
#pragma unroll
  for (int h = 0; h < kDecodeHeads; ++h) {
    largest[h] = -INFINITY;
    sum[h] = 0;
  }
  for (std::int32_t first = block.first + warp * kPageTokens; first < block.end;
       first += kDecodeWarps * kPageTokens) {
    const std::int32_t page = table[first / kPageTokens];
    const int left = block.end - first, count = left < kPageTokens ? left : kPageTokens;
    const float* const keys = pages.keys(page, arguments.layer, block.kv_head);
    const float* const values = pages.values(page, arguments.layer, block.kv_head);
    float scores[kDecodeHeads] = {};
    // A row that was not written is not read.
    if (own_key < count) {
      for (std::int32_t d = parity; d < width; d += 2) {
        const float key = __ldg(keys + own_key * width + d);
#pragma unroll
        for (int h = 0; h < kDecodeHeads; ++h) {
          if (h < block.heads) scores[h] = fmaf(query_tile[h * kStride + d], key, scores[h]);
        }
      }
    }
    __syncwarp();
#pragma unroll
    for (int h = 0; h < kDecodeHeads; ++h) {
      if (h >= block.heads) continue;
      float score = scores[h] + __shfl_xor_sync(~0u, scores[h], kPageTokens);
      score = own_key < count ? score * arguments.scale : -INFINITY;
      float most = score;
      for (int step = 1; step < kPageTokens; step *= 2) {
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
      }
      most = fmaxf(most, largest[h]);
      const float factor = most > largest[h] ? expf(largest[h] - most) : 1;
      const float weight = expf(score - most);
      largest[h] = most;
      // Of this lane's keys; the lanes' parts join at the end.
      sum[h] = fmaf(sum[h], factor, weight);
      for (int n = 0; n < kColumns; ++n) sums[h][n] *= factor;
      if (parity == 0) weights[h * kWeightStride + own_key] = weight;
    }
    __syncwarp();
    for (int j = 0; j < count; ++j) {
      float value[kColumns];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const int d = lane + kWarp * n;
        value[n] = d < width ? __ldg(values + j * width + d) : 0;
      }
#pragma unroll
      for (int h = 0; h < kDecodeHeads; ++h) {
        if (h >= block.heads) continue;
        const float weight = weights[h * kWeightStride + j];
#pragma unroll
        for (int n = 0; n < kColumns; ++n) sums[h][n] = fmaf(weight, value[n], sums[h][n]);
      }
    }
    __syncwarp();
  }

#pragma unroll
  for (int h = 0; h < kDecodeHeads; ++h) {
    if (h >= block.heads) continue;
    float all = sum[h];
    for (int step = 1; step < kPageTokens; step *= 2) all += __shfl_xor_sync(~0u, all, step);
    for (int n = 0; n < kColumns; ++n) {
      results.values[(warp * block.heads + h) * kHead + lane + kWarp * n] = sums[h][n];
    }
    if (lane == 0) {
      results.largest[warp * kDecodeHeads + h] = largest[h];
      results.sums[warp * kDecodeHeads + h] = all;
    }
  }
  __syncthreads();
  finish_decode<kHead>(arguments, block, results, partials);
}

}  // namespace

void decode_plain(const Context& context, const AttentionArguments& arguments,
                  const Pages<float>& pages, const DecodePartials& partials) {
  const std::int64_t heads = arguments.group < kDecodeHeads ? arguments.group : kDecodeHeads;
  for_head_class(pages.head_dim, [&](auto head) {
    const std::size_t shared =
        (kQueryFloats<head> + kWeightFloats) * sizeof(float) + decode_result_bytes<head>(heads);
    launch(context.stream, decode_plain_kernel<head>, decode_grid(arguments, pages.heads),
           kDecodeWarps * kWarp, shared, arguments, pages, partials);
  });
}

}  // namespace hindsearch::cuda
