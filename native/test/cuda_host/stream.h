// Streams as the model and the stand-in for cuBLAS see them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "native/test/cuda_host/runtime_api.h"

using HostModelWork = std::function<void()>;

struct CUgraph_st {
  std::vector<HostModelWork> work;
};
struct CUgraphExec_st {
  std::vector<HostModelWork> work;
};

struct CUstream_st {
  // Runs `work` in its turn, or records it. A pointer, so that a shared library needs no symbol of
  // the program.
  cudaError_t (*enqueue)(CUstream_st* stream, HostModelWork work);
  std::deque<HostModelWork> pending;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  CUgraph_st recorded{};
};

struct CUevent_st {
  unsigned flags = 0;
  CUstream_st* stream = nullptr;  // where it was last recorded
  std::uint64_t recorded = 0;     // how often, and how many of these the device has passed
  std::uint64_t passed = 0;
  double milliseconds = 0;
};
