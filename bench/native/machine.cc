// Peak, bandwidth, hand-over and name of the instruction set, as one JSON object.
//
//   machine_bench [threads]
#include <cstdio>
#include <cstdlib>

#include "bench/native/peak.h"
#include "native/core/thread_pool.h"

int main(int argc, char** argv) {
  using namespace hindsearch;
  if (argc > 1) set_thread_count(std::atoi(argv[1]));
  const std::size_t cache = last_level_cache();
  std::printf(
      R"({"instructionSet": "%s", "threads": %d, "f32": %.4g, "bf16": %.4g, "memory": %.4g, )"
      R"("cache": %.4g, "cacheBytes": %zu, "handover": %.3g})"
      "\n",
      instruction_set(), thread_count(), register_peak(ComputeType::f32, 0.3),
      register_peak(ComputeType::bf16, 0.3), Reader(kMemoryBytes).bytes_per_second(),
      Reader(cache / 3).bytes_per_second(), cache, handover_seconds());
}
