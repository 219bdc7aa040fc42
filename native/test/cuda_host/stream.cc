// Streams, events and graphs. Work waits in its stream until somebody asks for it, as late as a
// device might be: what the host changes or frees too early is seen changed or freed.
#include "native/test/cuda_host/stream.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "native/test/cuda_host/device.h"

namespace host_model {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

bool launch_blocking() {
  const char* const text = std::getenv("CUDA_LAUNCH_BLOCKING");
  return text != nullptr && std::strcmp(text, "1") == 0;
}

// Streams that record on this thread, or on any in the global mode.
thread_local int recording_here = 0;
int recording_globally = 0;

void count_recording(const CUstream_st& stream, int change) {
  if (stream.mode == cudaStreamCaptureModeGlobal) recording_globally += change;
  if (stream.mode == cudaStreamCaptureModeThreadLocal) recording_here += change;
}

void invalidate(CUstream_st* stream) {
  if (stream->capture == cudaStreamCaptureStatusActive) {
    stream->capture = cudaStreamCaptureStatusInvalidated;
  }
}

double now_in_milliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

CUevent_st* event_of(cudaEvent_t handle) {
  return device().events.count(handle) != 0 ? handle : nullptr;
}

// A call that waits for `stream`.
cudaError_t wait_for(CUstream_st* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != cudaStreamCaptureStatusNone) {
    invalidate(stream);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t error = refuse_in_capture()) return error;
  drain(stream);
  return cudaSuccess;
}

}  // namespace

CUstream_st* stream_of(cudaStream_t handle) {
  if (handle == nullptr) return &device().default_stream;
  return device().streams.count(handle) != 0 ? handle : nullptr;
}

cudaError_t enqueue(CUstream_st* stream, HostModelWork work) {
  const Lock lock(device().mutex);
  switch (stream->capture) {
    case cudaStreamCaptureStatusActive:
      stream->recorded.work.push_back(std::move(work));
      return cudaSuccess;
    case cudaStreamCaptureStatusInvalidated:
      return cudaErrorStreamCaptureInvalidated;
    case cudaStreamCaptureStatusNone:
      break;
  }
  stream->pending.push_back(std::move(work));
  if (launch_blocking()) drain(stream);
  return cudaSuccess;
}

void drain(CUstream_st* stream) {
  if (stream->pending.empty()) return;
  const AtWork at_work;
  try {
    while (!stream->pending.empty()) {
      const HostModelWork work = std::move(stream->pending.front());
      stream->pending.pop_front();
      work();
    }
  } catch (...) {
    stream->pending.clear();
    throw;
  }
}

void drain_all() {
  drain(&device().default_stream);
  for (CUstream_st* stream : device().streams) drain(stream);
}

cudaError_t refuse_in_capture() {
  if (recording_globally == 0 && recording_here == 0) return cudaSuccess;
  for (CUstream_st* stream : device().streams) {
    if (stream->mode != cudaStreamCaptureModeRelaxed) invalidate(stream);
  }
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace host_model

using host_model::device;
using host_model::event_of;
using host_model::Lock;
using host_model::result;
using host_model::stream_of;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Lock lock(device().mutex);
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) {
    return result(cudaErrorInvalidValue);
  }
  *stream = new CUstream_st{};
  (*stream)->enqueue = host_model::enqueue;
  device().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr || handle == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream->capture != cudaStreamCaptureStatusNone) host_model::count_recording(*stream, -1);
  host_model::drain(stream);
  device().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Lock lock(device().mutex);
  return result(host_model::wait_for(stream_of(handle)));
}
cudaError_t cudaStreamQuery(cudaStream_t handle) { return cudaStreamSynchronize(handle); }

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(device().mutex);
  if (const cudaError_t error = host_model::refuse_in_capture()) return result(error);
  host_model::drain_all();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  return result(host_model::enqueue(stream, [function, argument] { function(argument); }));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Lock lock(device().mutex);
  *event = new CUevent_st{};
  (*event)->flags = flags;
  device().events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const Lock lock(device().mutex);
  CUevent_st* const event = event_of(handle);
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  // Its records and waits may still be queued.
  if (event->passed < event->recorded) host_model::drain_all();
  device().events.erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const Lock lock(device().mutex);
  CUevent_st* const event = event_of(handle);
  CUstream_st* const stream = stream_of(stream_handle);
  if (event == nullptr || stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream->capture != cudaStreamCaptureStatusNone) {
    throw host_model::Fault{"an event is recorded in a graph, which the model does not know"};
  }
  event->stream = stream;
  const std::uint64_t count = ++event->recorded;
  return result(host_model::enqueue(stream, [event, count] {
    event->passed = count;
    event->milliseconds = host_model::now_in_milliseconds();
  }));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const Lock lock(device().mutex);
  CUevent_st* const event = event_of(handle);
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (event->passed == event->recorded) return cudaSuccess;
  return result(host_model::wait_for(event->stream));
}
cudaError_t cudaEventQuery(cudaEvent_t handle) { return cudaEventSynchronize(handle); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock(device().mutex);
  if (event_of(begin) == nullptr || event_of(end) == nullptr ||
      ((begin->flags | end->flags) & cudaEventDisableTiming) != 0 || begin->recorded == 0 ||
      end->recorded == 0) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (begin->passed < begin->recorded || end->passed < end->recorded) {
    return result(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(end->milliseconds - begin->milliseconds);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  const Lock lock(device().mutex);
  CUevent_st* const event = event_of(event_handle);
  CUstream_st* const stream = stream_of(handle);
  if (event == nullptr || stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream->capture != cudaStreamCaptureStatusNone) {
    throw host_model::Fault{
        "a wait for an event is recorded in a graph, which the model does not know"};
  }
  if (event->stream == stream || event->passed == event->recorded) return cudaSuccess;
  return result(host_model::enqueue(stream, [event, count = event->recorded, from = event->stream] {
    while (event->passed < count && !from->pending.empty()) {
      const HostModelWork work = std::move(from->pending.front());
      from->pending.pop_front();
      work();
    }
  }));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (handle == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != cudaStreamCaptureStatusNone) return result(cudaErrorInvalidValue);
  stream->capture = cudaStreamCaptureStatusActive;
  stream->mode = mode;
  stream->recorded.work.clear();
  host_model::count_recording(*stream, 1);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  *graph = nullptr;
  const cudaStreamCaptureStatus status = stream->capture;
  if (status == cudaStreamCaptureStatusNone) return result(cudaErrorInvalidValue);
  host_model::count_recording(*stream, -1);
  stream->capture = cudaStreamCaptureStatusNone;
  if (status == cudaStreamCaptureStatusInvalidated) {
    return result(cudaErrorStreamCaptureInvalidated);
  }
  *graph = new CUgraph_st{std::move(stream->recorded)};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  *status = stream->capture;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (graph == nullptr) return result(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  const Lock lock(device().mutex);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (executable == nullptr) return result(cudaErrorInvalidValue);
  for (const HostModelWork& work : executable->work) {
    if (const cudaError_t error = host_model::enqueue(stream, work)) return result(error);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
