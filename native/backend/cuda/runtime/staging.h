// Numbers on their way between host and device.
#pragma once

#include <array>
#include <cstddef>

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

// A ring of pinned memory: uploads are copied into it one behind the other, and a part of it is
// used again when the device has read what it held. So a caller may change its numbers at once, and
// waits only when the device is a whole ring behind.
class Staging {
 public:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  void upload(const void* host, void* device, std::size_t bytes);
  // Returns when the numbers are there.
  void download(const void* device, void* host, std::size_t bytes);

  static constexpr std::size_t kPartBytes = std::size_t{2} << 20;
  static constexpr std::size_t kParts = 4;

 private:
  void prepare();
  std::byte* part(std::size_t index) const { return ring_ + index * kPartBytes; }
  // Makes the next part current, once the device has read it.
  void advance();

  cudaStream_t stream_;
  std::byte* ring_ = nullptr;               // kParts parts for uploads, then one for downloads
  std::array<cudaEvent_t, kParts> read_{};  // the device has read the part
  std::size_t current_ = 0;
  std::size_t used_ = 0;  // bytes of the current part
};

}  // namespace hindsearch::cuda
