// What the model computes.
#include <bit>
#include <cmath>

#include "native/backend/cuda/ops/mma.h"
#include "native/test/backends.h"
#include "native/test/cuda_host/model_case.h"

namespace hindsearch::testing {
namespace {

__global__ void place(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      static_cast<int>(block * 1000 + thread);
}

TEST(every_thread_of_every_block_runs) {
  Array<int> out(2 * 3 * 2 * 4 * 3 * 2);
  OK(start(place, dim3(2, 3, 2), dim3(4, 3, 2), 0, out.data()));
  const std::vector<int> found = out.host();
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK_EQ(found[i], static_cast<int>(i / 24 * 1000 + i % 24));
  }
}

// The sum of a block by shared memory and barriers; threads that are done leave before the last.
__global__ void sum_block(const float* x, float* out) {
  auto* const part = shared<float>();
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * blockDim.x + t];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t >= half) return;
    part[t] += part[t + half];
  }
  out[blockIdx.x] = part[0];
}

TEST(a_block_shares_memory) {
  std::vector<float> x(5 * 1024);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 77);
  for (const char* order : {"forward", "reverse", "random"}) {
    const OrderOfThreads threads(order);
    Array<float> in(x), out(5);
    OK(start(sum_block, 5, 1024, 1024 * sizeof(float), in.data(), out.data()));
    const std::vector<float> sums = out.host();
    for (std::size_t b = 0; b < 5; ++b) {
      float expected = 0;
      for (std::size_t i = 0; i < 1024; ++i) expected += x[b * 1024 + i];
      CHECK_EQ(sums[b], expected);
    }
  }
}

__global__ void exchange(int* out, unsigned long long* wide) {
  const int t = static_cast<int>(threadIdx.x);
  int* const own = out + t * 8;
  own[0] = __shfl_sync(0xffffffff, t, 5);
  own[1] = __shfl_sync(0xffffffff, t, 9, 8);
  own[2] = __shfl_up_sync(0xffffffff, t, 3);
  own[3] = __shfl_down_sync(0xffffffff, t, 3, 16);
  own[4] = __shfl_xor_sync(0xffffffff, t, 6);
  own[5] = static_cast<int>(__ballot_sync(0xffffffff, t % 3 == 0));
  own[6] = __any_sync(0xffffffff, t == 3);
  own[7] = __all_sync(0xffffffff, t < 32);
  wide[t] = __shfl_xor_sync(0xffffffff, 0x100000000ull * static_cast<unsigned>(t), 1);
}

TEST(lanes_exchange_numbers) {
  Array<int> out(64 * 8);
  Array<unsigned long long> wide(64);
  OK(start(exchange, 1, 64, 0, out.data(), wide.data()));
  const std::vector<int> found = out.host();
  const std::vector<unsigned long long> found_wide = wide.host();
  for (int t = 0; t < 64; ++t) {
    const int first = t / 32 * 32, lane = t % 32;
    const int* const own = found.data() + t * 8;
    CHECK_EQ(own[0], first + 5);
    CHECK_EQ(own[1], t / 8 * 8 + 1);
    CHECK_EQ(own[2], lane < 3 ? t : t - 3);
    CHECK_EQ(own[3], t % 16 > 12 ? t : t + 3);
    CHECK_EQ(own[4], t ^ 6);
    CHECK_EQ(own[5], first == 0 ? 0x49249249 : static_cast<int>(0x92492492));
    CHECK_EQ(own[6], first == 0);
    CHECK_EQ(own[7], first == 0);
    CHECK_EQ(found_wide[static_cast<std::size_t>(t)] >> 32, static_cast<unsigned>(t ^ 1));
  }
}

// Halves of a warp on ways of their own, each with its mask; the last warp is not whole.
__global__ void halves(int* out) {
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  int value = lane;
  const unsigned mask = t >= 32 ? 0xff : lane < 16 ? 0xffff : 0xffff0000;
  if (lane < 16) {
    for (int bit = 1; bit < (t >= 32 ? 8 : 16); bit *= 2) {
      value += __shfl_xor_sync(mask, value, bit);
    }
  } else {
    value = __shfl_sync(mask, value, 20);
  }
  __syncwarp(mask);
  out[t] = value;
}

TEST(parts_of_a_warp_go_their_own_ways) {
  Array<int> out(40);
  OK(start(halves, 1, 40, 0, out.data()));
  const std::vector<int> found = out.host();
  for (std::size_t t = 0; t < 40; ++t) CHECK_EQ(found[t], t < 16 ? 120 : t < 32 ? 20 : 28);
}

__global__ void count(int* signed_sum, unsigned* biggest, unsigned long long* wide, float* sum,
                      int* smallest, unsigned* swaps) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(signed_sum, -t);
  atomicMax(biggest, static_cast<unsigned>(t * 7 % 100));
  atomicAdd(wide, 0x100000000ull);
  atomicAdd(sum, 0.5f);
  atomicMin(smallest, t * 7 % 100 - 50);
  if (atomicCAS(swaps, static_cast<unsigned>(t), static_cast<unsigned>(t + 1)) ==
      static_cast<unsigned>(t)) {
    atomicExch(swaps + 1, 1u);
  }
}

TEST(atomics) {
  Array<int> sum(std::vector<int>{0}), smallest(std::vector<int>{1000});
  Array<unsigned> biggest(std::vector<unsigned>{0}), swaps(std::vector<unsigned>{0, 0});
  Array<unsigned long long> wide(std::vector<unsigned long long>{0});
  Array<float> halves_sum(std::vector<float>{0});
  OK(start(count, 2, 50, 0, sum.data(), biggest.data(), wide.data(), halves_sum.data(),
           smallest.data(), swaps.data()));
  CHECK_EQ(sum.first(), -4950);
  CHECK_EQ(biggest.first(), 99u);
  CHECK_EQ(wide.first(), 100ull << 32);
  CHECK_EQ(halves_sum.first(), 50.0f);
  CHECK_EQ(smallest.first(), -50);
  const std::vector<unsigned> swapped = swaps.host();
  CHECK(swapped[0] >= 1);
  CHECK_EQ(swapped[1], 1u);
}

// a [16][16] row-major and b [16][8] row-major in bf16, c [16][8].
__global__ void product(const cuda::bf16* a, const cuda::bf16* b, float* c) {
  const int group = static_cast<int>(threadIdx.x) / 4, pair = static_cast<int>(threadIdx.x) % 4 * 2;
  const auto a_pair = [&](int row, int column) {
    return std::uint32_t{a[row * 16 + column].bits} | std::uint32_t{a[row * 16 + column + 1].bits}
                                                          << 16;
  };
  const auto b_pair = [&](int row) {
    return std::uint32_t{b[row * 8 + group].bits} | std::uint32_t{b[(row + 1) * 8 + group].bits}
                                                        << 16;
  };
  const std::uint32_t left[4] = {a_pair(group, pair), a_pair(group + 8, pair),
                                 a_pair(group, pair + 8), a_pair(group + 8, pair + 8)};
  const std::uint32_t right[2] = {b_pair(pair), b_pair(pair + 8)};
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = c[(group + i / 2 * 8) * 8 + pair + i % 2];
  cuda::mma_16x8x16(sums, left, right);
  for (int i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + pair + i % 2] = sums[i];
}

TEST(a_tensor_core_multiplies) {
  const Floats a = normal(16 * 16, 1), b = normal(16 * 8, 2), before = normal(16 * 8, 3);
  std::vector<cuda::bf16> narrow_a, narrow_b;
  for (const float x : a) narrow_a.push_back(cuda::to_bf16(x));
  for (const float x : b) narrow_b.push_back(cuda::to_bf16(x));
  Array<cuda::bf16> left(narrow_a), right(narrow_b);
  Array<float> out(before);
  OK(start(product, 1, 32, 0, left.data(), right.data(), out.data()));
  std::vector<double> expected(before.begin(), before.end());
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      for (std::size_t k = 0; k < 16; ++k) {
        expected[i * 8 + j] +=
            double{cuda::to_float(narrow_a[i * 16 + k])} * cuda::to_float(narrow_b[k * 8 + j]);
      }
    }
  }
  // Sixteen additions in f32.
  CHECK(relative_error(out.host(), expected) < 1e-6);
}

__global__ void arithmetic(float* out, unsigned* bits) {
  out[0] = __expf(1.0f);
  out[1] = __logf(10.0f);
  out[2] = rsqrtf(16.0f);
  out[3] = fmaf(2.0f, 3.0f, 4.0f);
  out[4] = __uint_as_float(0x40490fdb);
  out[5] = max(1.0f, __int_as_float(0x7fc00000));
  bits[0] = __float_as_uint(1.0f);
  bits[1] = static_cast<unsigned>(__popc(0xf0f0u));
  bits[2] = static_cast<unsigned>(__clz(1));
  bits[3] = static_cast<unsigned>(__ffs(8));
  bits[4] = __umulhi(0x80000000u, 6);
  bits[5] = __brev(1);
  bits[6] = min(3u, 2u);
}

TEST(functions_of_the_device) {
  Array<float> out(6);
  Array<unsigned> bits(7);
  OK(start(arithmetic, 1, 1, 0, out.data(), bits.data()));
  const std::vector<float> found = out.host();
  const float expected[] = {2.7182817f, 2.3025851f, 0.25f, 10, 3.1415927f, 1};
  for (std::size_t i = 0; i < 6; ++i) CHECK_NEAR(found[i], expected[i], 1e-6);
  const std::vector<unsigned> found_bits = bits.host();
  const unsigned expected_bits[] = {0x3f800000, 8, 31, 4, 3, 0x80000000, 2};
  for (std::size_t i = 0; i < 7; ++i) CHECK_EQ(found_bits[i], expected_bits[i]);
}

}  // namespace
}  // namespace hindsearch::testing
