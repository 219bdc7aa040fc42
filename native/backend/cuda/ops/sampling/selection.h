// Where a filter of Sampling cuts a row: exact searches over the bits of floats, by a whole block.
#pragma once

#include "native/backend/cuda/ops/softmax.h"

namespace hindsearch::cuda {

// Bits that order as the floats do, with one key for both zeros: which of them is the larger of a
// butterfly may differ from lane to lane.
__device__ __forceinline__ std::uint32_t key_of(float x) {
  const std::uint32_t bits = float_to_bits(x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of(std::uint32_t key) {
  return bits_to_float(key >> 31 ? key ^ 0x80000000u : ~key);
}

// A sum of floats to about 48 bits in two floats (Knuth's two-sum), because where a filter cuts
// must not hang on rounding; many GPUs add doubles 64 times slower.
struct MassSum {
  float sum = 0;
  float rest = 0;

  __device__ void add(float x) { rest += add_to_sum(x); }
  // Alike from both sides, so that all lanes of a butterfly end with the same bits.
  __device__ void add(const MassSum& other) {
    const float error = add_to_sum(other.sum);
    rest = (rest + other.rest) + error;
  }
  __device__ double total() const { return double{sum} + double{rest}; }
  __device__ MassSum from_lane(int bits) const {
    const unsigned long long both = __shfl_xor_sync(
        kAllLanes, static_cast<unsigned long long>(float_to_bits(sum)) << 32 | float_to_bits(rest),
        bits);
    return {bits_to_float(static_cast<std::uint32_t>(both >> 32)),
            bits_to_float(static_cast<std::uint32_t>(both))};
  }

 private:
  // What the new sum is too small by.
  __device__ float add_to_sum(float x) {
    const float next = sum + x, added = next - sum;
    const float error = (sum - (next - added)) + (x - added);
    sum = next;
    return error;
  }
};

struct Count {
  int number = 0;

  __device__ void add(float) { ++number; }
  __device__ void add(const Count& other) { number += other.number; }
  __device__ double total() const { return number; }
  __device__ Count from_lane(int bits) const { return {__shfl_xor_sync(kAllLanes, number, bits)}; }
};

// Sums over the block's threads, in a tree and with the same bits in all of them. Consecutive calls
// take turns in two parts of the shared memory, so that one barrier a call is enough.
class BlockSums {
 public:
  static constexpr int kMost = 3;  // sums of one call
  struct Memory {
    alignas(MassSum) unsigned char parts[2][kRowWarps * kMost * sizeof(MassSum)];
  };

  __device__ explicit BlockSums(Memory& shared) : shared_(shared) {}

  template <class Sum, int kSums>
  __device__ void reduce(Sum (&sums)[kSums]) {
    static_assert(kSums <= kMost && sizeof(Sum) <= sizeof(MassSum));
    Sum* const parts = reinterpret_cast<Sum*>(shared_.parts[turn_]);
    turn_ ^= 1;
    butterfly<kWarp>(sums);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if (lane_id() == 0) parts[warp_id() * kSums + i] = sums[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = parts[lane_id() % kRowWarps * kSums + i];
    butterfly<kRowWarps>(sums);
  }

 private:
  // Over groups of kLanes lanes.
  template <int kLanes, class Sum, int kSums>
  __device__ static void butterfly(Sum (&sums)[kSums]) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i].add(sums[i].from_lane(step));
    }
  }

  Memory& shared_;
  int turn_ = 0;
};

// The largest key in [low, high] below which the values weigh no more than `bound`; below `low`
// they do not. each(take) calls take(key, weight) for the values of this thread. Two bits are found
// in one pass over the values, from the first in which the ends differ.
template <class Sum, class Each>
__device__ __forceinline__ std::uint32_t find_cut(BlockSums& block, std::uint32_t low,
                                                  std::uint32_t high, double bound, Each&& each) {
  int bits = 32;
  while (bits > 0 && (low ^ high) >> (bits - 2) == 0) bits -= 2;
  std::uint32_t cut = bits == 32 ? 0 : low >> bits << bits;
  for (int shift = bits - 2; shift >= 0; shift -= 2) {
    Sum below[3];
    each([&](std::uint32_t key, float weight) {
#pragma unroll
      for (std::uint32_t digit = 1; digit < 4; ++digit) {
        if (key < cut + (digit << shift)) below[digit - 1].add(weight);
      }
    });
    block.reduce(below);
    std::uint32_t found = 0;
#pragma unroll
    for (std::uint32_t digit = 1; digit < 4; ++digit) {
      if (cut + (digit << shift) <= high && below[digit - 1].total() <= bound) found = digit;
    }
    cut += found << shift;
  }
  return cut;
}

}  // namespace hindsearch::cuda
