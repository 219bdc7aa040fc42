// A model of a CUDA device on the host, for the tests of the kernels' own source.
//
// A kernel's blocks run one after the other on the calling OS thread; the threads of a block are
// fibers. What the hardware leaves to luck is an error here, thrown as Fault from the launch or,
// with streams as late as on a device, from the call that waits: a barrier or a warp operation that
// not all its threads reach, a copy beyond an allocation, work that a graph must not record. Device
// memory and shared memory start as numbers that are not numbers. In AddressSanitizer's hands every
// access outside an allocation is an error too, as is the host's use of device memory, and a host
// pointer given to a kernel.
//
// Environment:
//   HINDSEARCH_CUDA_ORDER  forward (the default), reverse or random: the threads that could run go
//                          in this order. A missing barrier shows in one of the first two.
//   CUDA_LAUNCH_BLOCKING   1: work runs when it is enqueued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

#include "native/test/cuda_host/vectors.h"

namespace host_model {

// A kernel, or the host code around it, did what a device does not define. No std::exception: what
// recovers from errors must not recover from this. Uncaught, it is told before the program aborts.
struct Fault {
  std::string message;
};

// What memory is filled with before anyone wrote to it: a NaN as float, double or bf16, and far
// from any index.
inline constexpr std::uint16_t kUnwritten = 0x7ff7;

// Limits of a block: the least of the architectures that the kernels are compiled for.
inline constexpr unsigned kThreadLimit = 1024;
inline constexpr std::size_t kSharedLimit = 99 * 1024;

// The machine that the runtime finds. Its memory is free but for what the process took.
struct Machine {
  int driver = 13000;  // 0: none installed
  int devices = 1;
  int major = 8;  // compute capability
  int minor = 0;
  std::size_t memory = std::size_t{4} << 30;
  bool pools = true;  // memory in stream order
};
void set_machine(const Machine& machine);
// Bytes in use; kernels launched so far, recorded ones each time they ran.
std::size_t memory_used();
std::size_t kernels_run();

struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  const void* kernel = nullptr;
  std::function<void()> thread;  // the kernel with its arguments
};
// Runs all blocks now.
void run(const Launch& launch);

// --- For the code of a kernel. ---
using Location = std::source_location;

void* shared_bytes();
void sync_block(const Location& where);
// Waits until the lanes of `mask` have called with the same arguments, then lets `complete` see the
// payloads of all, once.
void sync_warp(unsigned mask, void* payload, void (*complete)(unsigned mask, void* const* payloads),
               const char* what, const Location& where);
unsigned lane();
void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const Location& where = Location::current());

}  // namespace host_model

inline thread_local constinit uint3 threadIdx{};
inline thread_local constinit uint3 blockIdx{};
inline thread_local constinit dim3 blockDim{};
inline thread_local constinit dim3 gridDim{};
inline constexpr int warpSize = 32;
