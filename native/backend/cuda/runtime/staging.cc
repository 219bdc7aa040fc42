#include "native/backend/cuda/runtime/staging.h"

#include <algorithm>
#include <cstring>

namespace hindsearch::cuda {
namespace {

// Where an upload begins in a part, so that the device's copy engine gets whole words.
constexpr std::size_t kAlignment = 64;

}  // namespace

Staging::~Staging() {
  // The device may still be reading. No checks: while the process ends, the runtime may be gone.
  if (ring_ != nullptr) cudaStreamSynchronize(stream_);
  for (const cudaEvent_t event : read_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (ring_ != nullptr) cudaFreeHost(ring_);
}

void Staging::prepare() {
  if (ring_ != nullptr) return;
  for (cudaEvent_t& event : read_) {
    if (event != nullptr) continue;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  }
  void* ring = nullptr;
  check(cudaMallocHost(&ring, (kParts + 1) * kPartBytes), "pinning memory of the host");
  ring_ = static_cast<std::byte*>(ring);
}

void Staging::advance() {
  check(cudaEventRecord(read_[current_], stream_), "marking an upload");
  current_ = (current_ + 1) % kParts;
  // An event that was never recorded is over.
  check(cudaEventSynchronize(read_[current_]), "waiting for an upload");
  used_ = 0;
}

void Staging::upload(const void* host, void* device, std::size_t bytes) {
  if (bytes == 0) return;
  prepare();
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(device);
  while (bytes > 0) {
    // What fits into one part goes up in one copy.
    if (used_ > 0 && used_ + std::min(bytes, kPartBytes) > kPartBytes) advance();
    const std::size_t chunk = std::min(bytes, kPartBytes - used_);
    std::byte* const staged = part(current_) + used_;
    std::memcpy(staged, from, chunk);
    check(cudaMemcpyAsync(to, staged, chunk, cudaMemcpyHostToDevice, stream_), "an upload");
    used_ = std::min(kPartBytes, (used_ + chunk + kAlignment - 1) / kAlignment * kAlignment);
    from += chunk;
    to += chunk;
    bytes -= chunk;
  }
}

void Staging::download(const void* device, void* host, std::size_t bytes) {
  if (bytes == 0) return;
  prepare();
  // Small ones are waited for on every step of decoding, and pinned memory is reached sooner; large
  // ones the driver takes apart better than we would.
  void* const to = bytes <= kPartBytes ? part(kParts) : host;
  check(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream_), "a download");
  check(cudaStreamSynchronize(stream_), "waiting for the device");
  if (to != host) std::memcpy(host, to, bytes);
}

}  // namespace hindsearch::cuda
