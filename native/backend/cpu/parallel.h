// How much work is worth a second thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "native/core/thread_pool.h"

namespace hindsearch::cpu {

// Below this many vector-sized operations (about ten microseconds) handing over costs more than it
// saves.
inline constexpr std::int64_t kWorthAThread = 16384;

// Threads to use for `work` operations.
inline int useful_threads(std::int64_t work) {
  return static_cast<int>(std::clamp<std::int64_t>(work / kWorthAThread, 1, thread_count()));
}

// body(task) for every task in [0, tasks), which together are `work` operations.
template <class Body>
void parallel_tasks(std::int64_t tasks, std::int64_t work, Body&& body) {
  if (useful_threads(work) > 1) return parallel_for(tasks, body);
  for (std::int64_t task = 0; task < tasks; ++task) body(task);
}

// body(begin, end) over [0, count) in contiguous ranges; `cost` is about the number of elements one
// item touches. Ranges depend on the number of threads, so an item must not depend on its range.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t cost, Body&& body) {
  constexpr std::int64_t kElementsAnOperation = 8;
  const int threads = useful_threads(count * cost / kElementsAnOperation);
  if (threads == 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t ranges = std::min<std::int64_t>(count, 4 * threads);
  parallel_for(ranges, [&](std::int64_t i) { body(count * i / ranges, count * (i + 1) / ranges); });
}

}  // namespace hindsearch::cpu
