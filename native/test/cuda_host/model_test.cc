// The model itself: what it computes, and that it finds what it promises to find.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch {
namespace {

template <class... Parameters, class... Arguments>
cudaError_t start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

#define OK(call) CHECK_EQ(call, cudaSuccess)

// An array on the device, of its own.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) { OK(cudaMalloc(&data_, count * sizeof(T))); }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    OK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { cudaFree(data_); }
  T* data() { return data_; }
  std::vector<T> host() {
    std::vector<T> values(count_);
    OK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

__global__ void place(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = static_cast<int>(block * 1000 + thread);
}

TEST(every_thread_of_every_block_runs) {
  Array<int> out(2 * 3 * 2 * 4 * 3 * 2);
  OK(start(place, dim3(2, 3, 2), dim3(4, 3, 2), 0, out.data()));
  const std::vector<int> found = out.host();
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK_EQ(found[i], static_cast<int>(i / 24 * 1000 + i % 24));
  }
}

// The sum of a block by shared memory and barriers.
__global__ void sum_block(const float* x, float* out) {
  auto* const part = static_cast<float*>(host_model::shared_bytes());
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * blockDim.x + t];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) part[t] += part[t + half];
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

TEST(a_block_shares_memory) {
  std::vector<float> x(5 * 1024);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 77);
  Array<float> in(x), out(5);
  OK(start(sum_block, 5, 1024, 1024 * sizeof(float), in.data(), out.data()));
  const std::vector<float> sums = out.host();
  for (std::size_t b = 0; b < 5; ++b) {
    float expected = 0;
    for (std::size_t i = 0; i < 1024; ++i) expected += x[b * 1024 + i];
    CHECK_EQ(sums[b], expected);
  }
}

__global__ void shuffles(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  int* const own = out + t * 6;
  own[0] = __shfl_sync(0xffffffff, t, 5);
  own[1] = __shfl_sync(0xffffffff, t, 9, 8);
  own[2] = __shfl_up_sync(0xffffffff, t, 3);
  own[3] = __shfl_down_sync(0xffffffff, t, 3, 16);
  own[4] = __shfl_xor_sync(0xffffffff, t, 6);
  own[5] = static_cast<int>(__ballot_sync(0xffffffff, t % 3 == 0));
}

TEST(lanes_exchange_numbers) {
  Array<int> out(64 * 6);
  OK(start(shuffles, 1, 64, 0, out.data()));
  const std::vector<int> found = out.host();
  for (int t = 0; t < 64; ++t) {
    const int first = t / 32 * 32, lane = t % 32;
    const int* const own = found.data() + t * 6;
    CHECK_EQ(own[0], first + 5);
    CHECK_EQ(own[1], t / 8 * 8 + 1);
    CHECK_EQ(own[2], lane < 3 ? t : t - 3);
    CHECK_EQ(own[3], t % 16 > 12 ? t : t + 3);
    CHECK_EQ(own[4], t ^ 6);
    CHECK_EQ(own[5], first == 0 ? 0x49249249 : static_cast<int>(0x92492492));
  }
}

}  // namespace
}  // namespace hindsearch
