// Draws from what the filters of Sampling leave of a row. A block has the row; what it keeps is
// exact, whatever the row: where few logits can be kept they move into shared memory first, where
// not every pass reads the row.
#include "native/backend/cuda/ops/inverse_sum.h"
#include "native/backend/cuda/ops/sampling/candidates.h"
#include "native/backend/cuda/ops/sampling/sampling.h"

namespace hindsearch::cuda {
namespace {

// What has no mass is never kept.
constexpr float kLeastMass = std::numeric_limits<float>::denorm_min();

// The candidates of one warp, split at a mass.
struct WarpSplit {
  double below, above;  // mass
  int equals;           // number
};

struct Memory {
  BlockSums::Memory sums;
  ListMemory list;
  WarpSplit splits[kRowWarps];
};

// Where top-p cuts: masses below `value` go, and of those equal to it the last, while what goes is
// at most `bound`. No value is cut at without top-p.
struct Cut {
  float value = 0;
  double bound = 0;
  double below = 0;  // mass of what went before the candidates were listed
};

// No logit below this has the given mass; some with less may be above.
__device__ float certainly_below(float top, float temperature, float mass) {
  constexpr double kSlack = 0.01;  // far above the rounding of an exponential's argument
  const double lowest = double{top} + double{temperature} * (double{logf(mass)} - kSlack);
  return value_of(key_of(static_cast<float>(lowest)) - 1);
}

// Leaves the k largest and those equal to the last of them. The k-th largest maximum of the spans
// has k logits at or above it, so those below it are out already.
__device__ void keep_top_k(Candidates& row, int k, BlockSums& block, const float* spans,
                           ListMemory& list) {
  const int span_count = (row.count + kSpan - 1) / kSpan;
  const std::uint32_t high = key_of(row.top);
  std::uint32_t low = 0;
  if (k <= span_count) {
    low = find_cut<Count>(block, 0, high, span_count - k, [&](auto&& take) {
      for (int i = static_cast<int>(threadIdx.x); i < span_count; i += kRowThreads) {
        take(key_of(spans[i]), 1.0f);
      }
    });
    narrow(row, value_of(low), spans, list);
  }
  row.least = value_of(find_cut<Count>(block, low, high, row.count - k, [&](auto&& take) {
    row.each([&](float logit) { take(key_of(logit), 1.0f); });
  }));
}

__device__ double total_mass(const Candidates& row, BlockSums& block) {
  MassSum sum[1];
  row.each([&](float logit) { sum[0].add(row.mass(logit)); });
  block.reduce(sum);
  return sum[0].total();
}

__device__ Cut cut_top_p(Candidates& row, const Sampling& sampling, BlockSums& block,
                         const float* spans, ListMemory& list) {
  const double total = total_mass(row, block);
  Cut cut;
  cut.bound = (1 - double{sampling.top_p}) * total;
  // Masses below this stay within the bound all together.
  const auto negligible = static_cast<float>(cut.bound / row.count);
  if (narrow(row, certainly_below(row.top, sampling.temperature, negligible), spans, list)) {
    cut.below = total - total_mass(row, block);
  }
  // Masses are at least 0: their bits order as they do. The largest, which is 1, is never beyond.
  cut.value = bits_to_float(
      find_cut<MassSum>(block, 0, float_to_bits(1.0f), cut.bound - cut.below, [&](auto&& take) {
        row.each([&](float logit) {
          const float mass = row.mass(logit);
          take(float_to_bits(mass), mass);
        });
      }));
  return cut;
}

// A warp's candidates follow one another, so that warps are in the order of the ids.
__device__ int per_warp(const Candidates& row) {
  constexpr int kTurn = kWarp * kRowWarps;
  return (row.count + kTurn - 1) / kTurn * kWarp;
}

__device__ void split(const Candidates& row, float value, WarpSplit* splits) {
  const int each = per_warp(row);
  const int begin = min(row.count, warp_id() * each), end = min(row.count, begin + each);
  MassSum below, above;
  int equals = 0;
#pragma unroll 2
  for (int i = begin + lane_id(); i < end; i += kWarp) {
    const float mass = row.mass(row.logits[i]);
    if (mass < value) below.add(mass);
    if (mass > value) above.add(mass);
    equals += mass == value;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    below.add(below.from_lane(step));
    above.add(above.from_lane(step));
  }
  equals = warp_sum(equals);
  if (lane_id() == 0) splits[warp_id()] = {below.total(), above.total(), equals};
  __syncthreads();
}

// How many of the masses equal to the cut go: as many as the bound allows, but never the largest.
__device__ int dropped(const Cut& cut, double below, int equals) {
  const double mass = cut.value;
  const auto weight = [&](int count) { return below + count * mass; };
  const int most = cut.value == 1 ? equals - 1 : equals;
  const double fitting = (cut.bound - below) / mass;
  int count = fitting < most ? static_cast<int>(fitting) : most;
  // The quotient is rounded.
  while (count > 0 && weight(count) > cut.bound) --count;
  while (count < most && weight(count + 1) <= cut.bound) ++count;
  return count < 0 ? 0 : count;
}

// By one warp: the candidate at which the cumulative sum of the masses above `lowest`, and of the
// first `equals` equal to it, is above `uniform` times the whole sum.
__device__ Drawn draw(const Candidates& row, const WarpSplit* splits, float lowest, int equals,
                      double uniform) {
  const WarpSplit mine = lane_id() < kRowWarps ? splits[lane_id()] : WarpSplit{0, 0, 0};
  int rank = mine.equals;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int lower = __shfl_up_sync(kAllLanes, rank, step);
    if (lane_id() >= step) rank += lower;
  }
  rank -= mine.equals;  // of the warp's first that is equal
  const double mass = mine.above + min(max(equals - rank, 0), mine.equals) * double{lowest};
  const double total = warp_sum(mass);
  const LanePlace place = find_lane(mass, uniform * total);
  rank = __shfl_sync(kAllLanes, rank, place.lane);
  const int each = per_warp(row), begin = place.lane * each, end = min(row.count, begin + each);

  double before = 0;
  int chosen = begin;
  for (int i = begin; i < end; i += kWarp) {
    const int at = i + lane_id();
    const float weight = at < end ? row.mass(row.logits[at]) : 0.0f;
    const unsigned tied = __ballot_sync(kAllLanes, weight == lowest);
    const bool kept = weight > lowest ||
                      (weight == lowest && rank + __popc(tied & ((1u << lane_id()) - 1)) < equals);
    rank += __popc(tied);
    const LanePlace inner = find_lane(kept ? weight : 0.0f, place.rest, before);
    if (inner.lane >= 0) chosen = i + inner.lane;
    if (inner.reached) break;
    before = inner.after;
  }
  const float z = (row.logits[chosen] - row.top) * row.scale;
  return {row.token(chosen), static_cast<float>(double{z} - log(total))};
}

__global__ void __launch_bounds__(kRowThreads)
    filter_kernel(LogitRows rows, const DrawRequest* requests, Drawn* drawn) {
  Memory& memory = *dynamic_shared<Memory>();
  float* const spans = reinterpret_cast<float*>(&memory + 1);
  const DrawRequest request = requests[blockIdx.x];
  const Sampling& sampling = request.sampling;
  const float* const logits = rows.data + std::int64_t{request.row} * rows.vocabulary;
  const float top = find_largest(logits, rows.vocabulary, rows.whole, spans);
  if (!(top > -kInfinity && top < kInfinity)) {
    if (threadIdx.x == 0) drawn[request.row] = {0, kNaN};
    return;
  }

  BlockSums block(memory.sums);
  const float scale = 1 / sampling.temperature;
  Candidates row{logits, nullptr, rows.vocabulary, rows.whole, -kInfinity, top, scale};
  if (sampling.top_k > 0 && sampling.top_k < rows.vocabulary) {
    keep_top_k(row, sampling.top_k, block, spans, memory.list);
  }
  Cut cut;
  if (sampling.top_p < 1) {
    cut = cut_top_p(row, sampling, block, spans, memory.list);
  } else if (sampling.min_p > 0) {
    // Not before top-p: the mass that it shares out includes what min-p will take.
    narrow(row, certainly_below(top, sampling.temperature, sampling.min_p), spans, memory.list);
  }
  const float min_p = sampling.min_p > kLeastMass ? sampling.min_p : kLeastMass;
  const float lowest = cut.value > min_p ? cut.value : min_p;
  split(row, lowest, memory.splits);
  if (warp_id() != 0) return;

  const WarpSplit mine = lane_id() < kRowWarps ? memory.splits[lane_id()] : WarpSplit{0, 0, 0};
  int equals = warp_sum(mine.equals);
  if (cut.value == lowest) equals -= dropped(cut, cut.below + warp_sum(mine.below), equals);
  const Drawn result = draw(row, memory.splits, lowest, equals, request.uniform);
  if (lane_id() == 0) drawn[request.row] = result;
}

}  // namespace

void draw_filtered(cudaStream_t stream, const LogitRows& rows, const DrawRequest* requests,
                   std::int64_t count, Drawn* drawn) {
  const auto spans = static_cast<std::size_t>(segment_count(rows.vocabulary)) * kSegmentSpans;
  launch(stream, filter_kernel, dim3(static_cast<unsigned>(count)), kRowThreads,
         sizeof(Memory) + spans * sizeof(float), rows, requests, drawn);
}

}  // namespace hindsearch::cuda
