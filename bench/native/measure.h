// Timing for the benchmarks in this folder.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>
#include <vector>

#include "native/core/thread_pool.h"

namespace hindsearch {

inline double clock_seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Wall seconds of many calls. `fast` is their 10th percentile: other work on the machine only ever
// adds, and a single fastest call may owe its time to luck with the clock.
struct CallTimes {
  double fast, median;
};

// Calls body(0), body(1), ... for `budget` seconds and at least `least` times.
inline CallTimes time_calls(const std::function<void(int)>& body, double budget, int least = 5) {
  std::vector<double> seconds;
  const double until = clock_seconds(CLOCK_MONOTONIC) + budget;
  for (int call = 0; call < least || clock_seconds(CLOCK_MONOTONIC) < until; ++call) {
    const double start = clock_seconds(CLOCK_MONOTONIC);
    body(call);
    seconds.push_back(clock_seconds(CLOCK_MONOTONIC) - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 10], seconds[seconds.size() / 2]};
}

// The fastest of many calls: other work on the machine only ever adds. A call of one thread that is
// longer than a time slice is measured in processor time, which holds on a busy machine; with more
// threads it is wall time and needs an idle one.
inline double fastest_seconds(const std::function<void()>& body, double budget = 0.3) {
  constexpr double kSlice = 1e-3;
  double best_wall = 1e9, best_cpu = 1e9;
  const double until = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) + budget;
  for (int calls = 0; calls < 3 || clock_seconds(CLOCK_PROCESS_CPUTIME_ID) < until; ++calls) {
    const double wall = clock_seconds(CLOCK_MONOTONIC),
                 cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    body();
    best_cpu = std::min(best_cpu, clock_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu);
    best_wall = std::min(best_wall, clock_seconds(CLOCK_MONOTONIC) - wall);
  }
  return thread_count() == 1 && best_wall > kSlice ? best_cpu : best_wall;
}

}  // namespace hindsearch
