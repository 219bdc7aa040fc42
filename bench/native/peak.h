// What this machine can do at most, with all threads of the pool: the limits that everything else
// is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "native/backend/backend.h"

namespace hindsearch {

// Flop a second of multiply-adds that touch registers alone, in the instruction set in use. For
// bf16 without an instruction that multiplies it: that of f32, which such a machine widens to.
double register_peak(ComputeType compute, double seconds = 0.05);

// Reads a buffer of its own, `bytes` large (rounded down to 2 MiB), on all threads.
class Reader {
 public:
  explicit Reader(std::size_t bytes);
  double bytes_per_second() const;

 private:
  struct Free {
    void operator()(char* memory) const;
  };
  std::int64_t chunks_;
  std::unique_ptr<char, Free> memory_;
};

// Larger than any cache of a single socket by far.
inline constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;

// Seconds until one thread sees what another wrote: some 40 ns where the two cores share a cache,
// and a multiple of that where they do not. 0 with one thread.
double handover_seconds();

// Bytes of the last-level cache; 32 MiB where the system does not say.
std::size_t last_level_cache();

}  // namespace hindsearch
