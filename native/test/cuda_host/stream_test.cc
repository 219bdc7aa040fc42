// Streams, events, graphs, memory and the machine, as the model has them.
#include "native/test/cuda_host/stream.h"

#include "native/test/cuda_host/model_case.h"

namespace hindsearch::testing {
namespace {

class Stream {
 public:
  Stream() { OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }  // NOLINT: a handle

 private:
  cudaStream_t stream_ = nullptr;
};

__global__ void add(int* x, int by) { *x += by; }

TEST(work_is_done_when_it_is_waited_for) {
  const Stream stream;
  Array<int> x(std::vector<int>{1});
  const std::size_t before = host_model::kernels_run();
  OK(start_on(stream, add, 1, 1, 0, x.data(), 2));
  CHECK_EQ(host_model::kernels_run(), before);
  OK(cudaStreamSynchronize(stream));
  CHECK_EQ(host_model::kernels_run(), before + 1);
  CHECK_EQ(x.first(), 3);
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  OK(start_on(stream, add, 1, 1, 0, x.data(), 2));
  unsetenv("CUDA_LAUNCH_BLOCKING");
  CHECK_EQ(host_model::kernels_run(), before + 2);
}

TEST(copies_read_late_what_is_pinned) {
  const Stream stream;
  Array<int> x(2);
  int* pinned;
  OK(cudaMallocHost(&pinned, sizeof(int)));
  int pageable = 1;
  *pinned = 1;
  OK(cudaMemcpyAsync(x.data(), pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(x.data() + 1, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream));
  *pinned = pageable = 2;
  std::vector<int> found(2);
  // To pageable memory: waits.
  OK(cudaMemcpyAsync(found.data(), x.data(), 2 * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_EQ(found[0], 2);
  CHECK_EQ(found[1], 1);
  OK(cudaMemcpyAsync(pinned, x.data() + 1, sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_EQ(*pinned, 2);
  OK(cudaStreamSynchronize(stream));
  CHECK_EQ(*pinned, 1);
  OK(cudaFreeHost(pinned));
}

TEST(an_event_orders_two_streams) {
  const Stream first, second;
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Array<int> x(std::vector<int>{0});
  OK(cudaEventSynchronize(event));  // never recorded: over
  OK(start_on(first, add, 1, 1, 0, x.data(), 5));
  OK(cudaEventRecord(event, first));
  OK(start_on(first, add, 1, 1, 0, x.data(), 100));
  OK(cudaStreamWaitEvent(second, event));
  int* pinned;
  OK(cudaMallocHost(&pinned, sizeof(int)));
  OK(cudaMemcpyAsync(pinned, x.data(), sizeof(int), cudaMemcpyDeviceToHost, second));
  OK(cudaStreamSynchronize(second));
  CHECK_EQ(*pinned, 5);
  OK(cudaStreamSynchronize(first));
  CHECK_EQ(x.first(), 105);
  OK(cudaFreeHost(pinned));
  OK(cudaEventDestroy(event));
}

TEST(a_graph_is_played_again) {
  const Stream stream;
  Array<int> x(std::vector<int>{0});
  int by = 3;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(stream, &status));
  CHECK_EQ(status, cudaStreamCaptureStatusActive);
  OK(cudaMemsetAsync(x.data(), 0, sizeof(int), stream));
  OK(start_on(stream, add, 1, 1, 0, x.data(), by));
  // A library's work is recorded too.
  CUstream_st* const inside = stream;
  OK(inside->enqueue(inside, [data = x.data()] { *data *= 2; }));
  by = 100;
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  CHECK_EQ(x.first(), 0);
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph));
  OK(cudaGraphDestroy(graph));
  for (int run = 0; run < 2; ++run) {
    OK(start_on(stream, add, 1, 1, 0, x.data(), 40));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK_EQ(x.first(), 6);
  }
  OK(cudaGraphExecDestroy(executable));
}

TEST(what_a_graph_must_not_record) {
  const Stream stream;
  Array<int> x(1);
  const auto lost = [&](auto&& call) {
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK_EQ(call(), cudaErrorStreamCaptureUnsupported);
    CHECK_EQ(start_on(stream, add, 1, 1, 0, x.data(), 1), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph;
    CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    cudaGetLastError();
  };
  void* memory;
  lost([&] { return cudaMalloc(&memory, 8); });
  lost([&] { return cudaMallocHost(&memory, 8); });
  lost([&] { return cudaFree(x.data()); });
  lost([&] { return cudaStreamSynchronize(stream); });
  lost([&] { return cudaDeviceSynchronize(); });

  int host = 0;
  const auto fault = [&](auto&& call) {
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    const std::string found = fault_of(call);
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    return found;
  };
  int* pinned;
  OK(cudaMallocHost(&pinned, sizeof(int)));
  for (int* from : {&host, pinned}) {
    CHECK(
        contains(fault([&] { cudaMemcpyAsync(x.data(), from, 4, cudaMemcpyHostToDevice, stream); }),
                 "a copy of host memory is recorded"));
  }
  CHECK(
      contains(fault([&] { cudaMemcpyAsync(&host, x.data(), 4, cudaMemcpyDeviceToHost, stream); }),
               "a copy of host memory is recorded"));
  OK(cudaFreeHost(pinned));
  CHECK(contains(fault([&] { cudaMallocAsync(&memory, 8, stream); }), "allocation"));
  CHECK(contains(fault([&] { cudaFreeAsync(x.data(), stream); }), "freeing"));
  CHECK_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
           cudaErrorStreamCaptureUnsupported);
  CHECK_EQ(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&host)),
           cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(memory_comes_to_an_end) {
  const std::size_t used = host_model::memory_used();
  host_model::set_machine({.memory = used + 1000});
  void *first, *second;
  OK(cudaMalloc(&first, 600));
  CHECK_EQ(cudaMalloc(&second, 401), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaMallocAsync(&second, 401, nullptr), cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  CHECK_EQ(free, 400u);
  CHECK_EQ(total, used + 1000);
  OK(cudaFree(first));
  CHECK_EQ(host_model::memory_used(), used);
  host_model::set_machine({});
  cudaGetLastError();
}

TEST(machines_without_a_device) {
  int count = 1;
  host_model::set_machine({.driver = 0});
  CHECK_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  host_model::set_machine({.driver = 12040});
  CHECK_EQ(cudaSetDevice(0), cudaErrorInsufficientDriver);
  host_model::set_machine({.devices = 0});
  CHECK_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  CHECK_EQ(count, 0);
  host_model::set_machine({.major = 7, .minor = 5});
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  CHECK_EQ(properties.major * 10 + properties.minor, 75);
  CHECK_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  host_model::set_machine({});
  cudaGetLastError();
}

}  // namespace
}  // namespace hindsearch::testing
