// The model finds what it promises to find: every kernel here has a fault.
#include <cmath>

#include "native/test/cuda_host/model_case.h"

namespace hindsearch::testing {
namespace {

// The fault of one block of `threads` threads.
template <class... Parameters, class... Arguments>
std::string fault_in(void (*kernel)(Parameters...), unsigned threads, Arguments... arguments) {
  const std::string found = fault_of([&] {
    OK(start(kernel, 3, threads, 256, arguments...));
    OK(cudaDeviceSynchronize());
  });
  // The device is as good as new.
  OK(cudaDeviceSynchronize());
  return found;
}

__global__ void half_waits_elsewhere() {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(barriers_at_two_places) {
  const std::string fault = fault_in(half_waits_elsewhere, 64);
  CHECK(contains(fault, "half_waits_elsewhere"));
  CHECK(contains(fault, "block (0, 0, 0)"));
  CHECK(contains(fault, "while thread (") && contains(fault, "faults_test.cc:"));
}

__global__ void one_waits_in_its_warp() {
  if (threadIdx.x == 5) __syncwarp();
  __syncthreads();
}

TEST(a_warp_barrier_that_one_lane_reaches) {
  const std::string fault = fault_in(one_waits_in_its_warp, 64);
  CHECK(contains(fault, "one_waits_in_its_warp"));
  CHECK(contains(fault, "1 of them, first (5, 0, 0), wait in __syncwarp"));
  CHECK(contains(fault, "for lanes 0xffffffff"));
  CHECK(contains(fault, "63 of them, first (0, 0, 0), wait in __syncthreads"));
}

__global__ void some_lanes_are_gone(int* out) {
  if (threadIdx.x % 32 >= 30) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffff, static_cast<int>(threadIdx.x), 1);
}

TEST(a_shuffle_whose_lanes_do_not_all_arrive) {
  Array<int> out(32);
  const std::string fault = fault_in(some_lanes_are_gone, 32, out.data());
  CHECK(contains(fault, "some_lanes_are_gone"));
  CHECK(contains(fault, "30 of 32 threads still run"));
  CHECK(contains(fault, "__shfl_xor_sync"));
}

__global__ void two_shuffles(int* out) {
  const int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_sync(0xffffffff, value, 0);
  } else {
    out[threadIdx.x] = __shfl_sync(0xffffffff, value, 16);
  }
}

TEST(lanes_of_one_mask_at_two_shuffles) {
  Array<int> out(32);
  CHECK(contains(fault_in(two_shuffles, 32, out.data()), "is stuck"));
}

__global__ void not_in_its_mask(int* out) {
  out[threadIdx.x] = __shfl_sync(0xffff, static_cast<int>(threadIdx.x), 0);
}

TEST(a_lane_that_its_mask_leaves_out) {
  Array<int> out(32);
  const OrderOfThreads order("reverse");
  CHECK(contains(fault_in(not_in_its_mask, 32, out.data()), "thread (31, 0, 0) calls __shfl_sync"));
}

__global__ void whole_mask_in_half_a_warp(int* out) {
  out[threadIdx.x] = __any_sync(0xffffffff, 1);
}

TEST(a_mask_of_lanes_that_are_not_there) {
  Array<int> out(16);
  CHECK(contains(fault_in(whole_mask_in_half_a_warp, 16, out.data()), "does not have"));
}

__global__ void reads_an_absent_lane(float* out) {
  // Lanes 0 to 3 alone take part.
  if (threadIdx.x < 4) out[threadIdx.x] = __shfl_sync(0xf, 1.0f, 7);
}

TEST(a_number_of_a_lane_that_takes_no_part) {
  Array<float> out(4);
  OK(start(reads_an_absent_lane, 1, 32, 0, out.data()));
  for (const float x : out.host()) CHECK(std::isnan(x));
}

// Neighbours swap by shared memory, without a barrier.
__global__ void no_barrier(int* out) {
  auto* const part = shared<int>();
  part[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = part[threadIdx.x ^ 1];
}
// With the first barrier, but not with the one before memory is written again.
__global__ void no_second_barrier(int* out) {
  auto* const part = shared<int>();
  part[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x ^ 1];
  part[threadIdx.x] = -1;
}
__global__ void no_warp_barrier(int* out) {
  auto* const part = shared<int>();
  part[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = part[threadIdx.x ^ 1];
  part[threadIdx.x] = -1;
}

TEST(missing_barriers_show_in_either_order) {
  for (const auto kernel : {no_barrier, no_second_barrier, no_warp_barrier}) {
    for (const char* order : {"forward", "reverse"}) {
      const OrderOfThreads threads(order);
      Array<int> out(64);
      OK(start(kernel, 1, 64, 64 * sizeof(int), out.data()));
      const std::vector<int> found = out.host();
      int wrong = 0;
      for (int t = 0; t < 64; ++t) wrong += found[static_cast<std::size_t>(t)] != (t ^ 1);
      CHECK(wrong > 0);
    }
  }
}

// Every pair of threads, one writing and the other reading: one of the two orders tells.
__global__ void write_and_read(int writer, int reader, int* out) {
  auto* const part = shared<int>();
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == writer) part[0] = 7;
  if (static_cast<int>(threadIdx.x) == reader) *out = part[0];
}

TEST(every_unordered_pair_shows) {
  for (int writer = 0; writer < 64; writer += 7) {
    for (int reader = 0; reader < 64; reader += 9) {
      if (reader == writer) continue;
      int right = 0;
      for (const char* order : {"forward", "reverse"}) {
        const OrderOfThreads threads(order);
        Array<int> out(1);
        OK(start(write_and_read, 1, 64, 4, writer, reader, out.data()));
        right += out.first() == 7;
      }
      CHECK_EQ(right, 1);
    }
  }
}

__global__ void own_order(int* turn, int* out) { out[threadIdx.x] = atomicAdd(turn, 1); }

TEST(the_order_of_threads) {
  const auto run = [](const char* order) {
    const OrderOfThreads threads(order);
    Array<int> turn(std::vector<int>{0}), out(64);
    OK(start(own_order, 1, 64, 0, turn.data(), out.data()));
    return out.host();
  };
  const std::vector<int> forward = run("forward"), reverse = run("reverse"), random = run("random");
  for (int t = 0; t < 64; ++t) {
    CHECK_EQ(forward[static_cast<std::size_t>(t)], t);
    CHECK_EQ(reverse[static_cast<std::size_t>(t)], 63 - t);
  }
  CHECK(random != forward && random != reverse && random != run("random"));
  CHECK(contains(fault_of([&] { run("sideways"); }), "sideways"));
}

__global__ void copies_shared(float* out, int count) {
  for (int i = 0; i < count; ++i) out[i] = shared<float>()[i];
  for (int i = 0; i < count; ++i) shared<float>()[i] = 1;
}

TEST(memory_that_nobody_wrote_is_not_a_number) {
  Array<float> out(8), untouched(3);
  // The second block does not see what the first wrote.
  OK(start(copies_shared, 2, 1, 8 * sizeof(float), out.data(), 8));
  for (const float x : out.host()) CHECK(std::isnan(x));
  for (const float x : untouched.host()) CHECK(std::isnan(x));
}

TEST(limits_of_a_launch) {
  const auto place = +[](int*) {};
  Array<int> out(1);
  CHECK_EQ(start(place, 1, 1025, 0, out.data()), cudaErrorInvalidConfiguration);
  CHECK_EQ(start(place, 1, dim3(1, 1, 65), 0, out.data()), cudaErrorInvalidConfiguration);
  CHECK_EQ(start(place, dim3(1, 65536), 1, 0, out.data()), cudaErrorInvalidConfiguration);
  CHECK_EQ(start(place, dim3(1, 1, 65536), 1, 0, out.data()), cudaErrorInvalidConfiguration);
  CHECK_EQ(start(place, 0, 1, 0, out.data()), cudaErrorInvalidConfiguration);
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  CHECK_EQ(cudaGetLastError(), cudaSuccess);
  // More than 48 KiB must be asked for, and 99 KiB is all there is.
  CHECK_EQ(start(place, 1, 1, 48 * 1024 + 1, out.data()), cudaErrorInvalidValue);
  const auto ask = [&](int bytes) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(place),
                                cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  CHECK_EQ(ask(99 * 1024 + 1), cudaErrorInvalidValue);
  OK(ask(99 * 1024));
  OK(start(place, 1, 1, 99 * 1024, out.data()));
  CHECK_EQ(start(place, 1, 1, 99 * 1024 + 1, out.data()), cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaDeviceSynchronize());
}

TEST(copies_stay_inside_allocations) {
  Array<int> x(4);
  const std::vector<int> host(8, 1);
  CHECK(contains(fault_of([&] { cudaMemcpy(x.data(), host.data(), 20, cudaMemcpyHostToDevice); }),
                 "copy to the device of 20 bytes"));
  std::vector<int> down(8);
  CHECK(
      contains(fault_of([&] { cudaMemcpy(down.data(), x.data() + 3, 8, cudaMemcpyDeviceToHost); }),
               "copy from the device of 8 bytes"));
  CHECK(contains(fault_of([&] { cudaMemset(x.data(), 0, 17); }), "memset of 17 bytes"));
  CHECK(contains(fault_of([&] { cudaMemcpy(x.data(), x.data(), 4, cudaMemcpyHostToDevice); }),
                 "the source is on the device"));
  CHECK_EQ(cudaFree(down.data()), cudaErrorInvalidValue);
  cudaGetLastError();
}

}  // namespace
}  // namespace hindsearch::testing
