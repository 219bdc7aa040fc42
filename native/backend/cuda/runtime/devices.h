// The GPU of this machine, or what is missing for one.
#pragma once

#include <cstddef>
#include <string>

namespace hindsearch::cuda {

struct Device {
  std::string description;  // for reports: "cuda sm_90, NVIDIA H200"
  int multiprocessors;
  std::size_t total_bytes;
  std::size_t free_bytes;  // at this moment, of all processes
};

// The first GPU that the driver shows, made the calling thread's. Throws Error(DEVICE_UNAVAILABLE)
// that says what to install where there is no driver, one that is too old for this build, no GPU,
// or one that is too old.
Device usable_device();

}  // namespace hindsearch::cuda
