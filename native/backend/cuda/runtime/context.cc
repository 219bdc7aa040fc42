#include "native/backend/cuda/runtime/context.h"

#include <algorithm>
#include <bit>

#include "native/backend/cuda/runtime/staging.h"
#include "native/core/error.h"

namespace hindsearch::cuda {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{64} << 10, kExactBytes = std::size_t{1} << 20;

}  // namespace

Workspace::Workspace(cudaStream_t stream)
    : stream_(stream), staging_(std::make_unique<Staging>(stream)) {}
Workspace::~Workspace() = default;

void* Workspace::bytes(Slot slot, std::size_t bytes) {
  DeviceBytes& block = blocks_[static_cast<std::size_t>(slot)];
  if (block.size() < bytes) {
    cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream_, &recording), "asking whether a pass is recorded");
    if (recording != cudaStreamCaptureStatusNone) {
      throw Error(code::kInternal, "a recorded pass needs more working memory than it did before");
    }
    ++generation_;
    block = DeviceBytes();  // first free, then allocate: the contents are not kept
    // What grows with a sequence must not be allocated anew for every token.
    block = DeviceBytes(bytes < kExactBytes ? std::bit_ceil(std::max(bytes, kLeastBytes)) : bytes);
  }
  return block.data();
}

TemporaryBytes::TemporaryBytes(cudaStream_t stream, std::size_t bytes)
    : stream_(stream), data_(pool_allocate(stream, bytes)) {}
TemporaryBytes::~TemporaryBytes() { pool_free(stream_, data_); }

void upload_bytes(const Context& context, const void* host, void* device, std::size_t bytes) {
  context.workspace.staging().upload(host, device, bytes);
}

void download_bytes(const Context& context, const void* device, void* host, std::size_t bytes) {
  context.workspace.staging().download(device, host, bytes);
}

}  // namespace hindsearch::cuda
