// Draws from the whole vocabulary, and who draws which row.
#include <vector>

#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/ops/inverse_sum.h"
#include "native/backend/cuda/ops/sampling/sampling.h"
#include "native/backend/cuda/ops/softmax.h"

namespace hindsearch::cuda {
namespace {

// A lane's part of a segment when the order of the ids matters: kLaneLogits in a row.
struct LanePart {
  int begin, end;
  __device__ LanePart(int segment, int vocabulary)
      : begin(min(vocabulary, segment * kSegment + lane_id() * kLaneLogits)),
        end(min(vocabulary, begin + kLaneLogits)) {}
};

// By one warp, as is the next: the first of the largest logits.
__device__ int first_largest(const float* row, int vocabulary, const Segment* segments, float top) {
  int segment = 0;
  while (segments[segment].top != top) ++segment;
  const LanePart part(segment, vocabulary);
  int index = part.begin;
  while (index < part.end && row[index] != top) ++index;
  const unsigned found = __ballot_sync(kAllLanes, index < part.end);
  return __shfl_sync(kAllLanes, index, __ffs(static_cast<int>(found)) - 1);
}

// The first token whose cumulative probability is above `uniform`: segments first, then inside one.
__device__ int inverse_cumulative(const float* row, int vocabulary, const Segment* segments,
                                  const SoftmaxTotal& total, double uniform) {
  const int count = segment_count(vocabulary), each = (count + kWarp - 1) / kWarp;
  const auto mass = [&](int s) { return total.mass(segments[s]); };
  const int begin = min(count, lane_id() * each), end = min(count, begin + each);
  double sum = 0;
  for (int s = begin; s < end; ++s) sum += mass(s);
  const LanePlace lane = find_lane(sum, uniform * total.sum);
  const auto place = find_place(begin, end, lane.rest, mass);
  const int segment = __shfl_sync(kAllLanes, place.index, lane.lane);
  const double fraction = __shfl_sync(kAllLanes, place.rest, lane.lane) / mass(segment);

  // Relative to the segment's own maximum, so that tiny probabilities do not underflow, and of a
  // sum in f64: what one in f32 is too large by would be the share of the last token.
  const LanePart part(segment, vocabulary);
  const float top = segments[segment].top;
  const auto weight = [&](int i) { return double{exponential((row[i] - top) * total.scale)}; };
  sum = 0;
  for (int i = part.begin; i < part.end; ++i) sum += weight(i);
  const LanePlace inner = find_lane(sum, fraction * warp_sum(sum));
  const int index = find_place(part.begin, part.end, inner.rest, weight).index;
  return __shfl_sync(kAllLanes, index, inner.lane);
}

__global__ void __launch_bounds__(kRowThreads)
    draw_kernel(LogitRows rows, const DrawRequest* requests, Drawn* drawn) {
  auto* const segments = dynamic_shared<Segment>();
  const DrawRequest request = requests[blockIdx.x];
  const bool greedy = request.sampling.temperature == 0;
  const float* const row = rows.data + std::int64_t{request.row} * rows.vocabulary;
  const float scale = greedy ? 1.0f : 1 / request.sampling.temperature;
  reduce_segments<false>(row, rows.vocabulary, rows.whole, scale, segments);
  __syncthreads();
  if (warp_id() != 0) return;
  const SoftmaxTotal total = merge_segments<false>(segments, segment_count(rows.vocabulary), scale);
  Drawn result{0, kNaN};
  if (total.is_distribution()) {
    result.token = greedy
                       ? first_largest(row, rows.vocabulary, segments, total.top)
                       : inverse_cumulative(row, rows.vocabulary, segments, total, request.uniform);
    result.log_prob = total.log_prob(row[result.token]);
  }
  if (lane_id() == 0) drawn[request.row] = result;
}

bool filters(const Sampling& sampling, std::int64_t vocabulary) {
  return sampling.temperature != 0 && ((sampling.top_k > 0 && sampling.top_k < vocabulary) ||
                                       sampling.top_p < 1 || sampling.min_p > 0);
}

}  // namespace

void sample(const Context& context, float* logits, std::int64_t rows, std::int64_t vocabulary,
            const Sampling* host_sampling, const double* host_uniforms, Token* host_tokens,
            float* host_log_probs) {
  if (rows == 0) return;
  const auto size = static_cast<std::size_t>(rows);
  // Those without a filter first: each kernel has its own rows.
  std::vector<DrawRequest> requests(size);
  std::int64_t plain = 0, filtered = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = filters(host_sampling[r], vocabulary) ? rows - ++filtered : plain++;
    requests[static_cast<std::size_t>(at)] = {host_uniforms[r], static_cast<std::int32_t>(r),
                                              host_sampling[r]};
  }
  auto* const device_requests = context.workspace.take<DrawRequest>(Slot::parameters, rows);
  auto* const device_drawn = context.workspace.take<Drawn>(Slot::results, rows);
  upload_bytes(context, requests.data(), device_requests, size * sizeof(DrawRequest));

  const bool aligned = reinterpret_cast<std::uintptr_t>(logits) % sizeof(float4) == 0;
  const LogitRows view{logits, static_cast<std::int32_t>(vocabulary),
                       aligned && vocabulary % 4 == 0};
  launch(context.stream, draw_kernel, dim3(static_cast<unsigned>(plain)), kRowThreads,
         static_cast<std::size_t>(segment_count(vocabulary)) * sizeof(Segment), view,
         device_requests, device_drawn);
  draw_filtered(context.stream, view, device_requests + plain, filtered, device_drawn);

  std::vector<Drawn> drawn(size);
  download_bytes(context, device_drawn, drawn.data(), size * sizeof(Drawn));
  for (std::size_t r = 0; r < size; ++r) {
    host_tokens[r] = drawn[r].token;
    host_log_probs[r] = drawn[r].log_prob;
  }
}

}  // namespace hindsearch::cuda
