#include "native/core/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

#include "native/core/error.h"
#include "native/core/thread.h"

namespace hindsearch {
namespace {

constexpr int kMaxThreads = 256;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

#if defined(__linux__)
// The container's CPU quota in whole CPUs, rounded up; 0 when there is none.
int quota_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  long period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const long microseconds = std::strtol(quota.c_str(), nullptr, 10);
  return microseconds <= 0 ? 0 : static_cast<int>((microseconds + period - 1) / period);
}

// Two hardware threads of one core share its vector units: the second adds little and costs cache.
int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    cores.insert(std::getline(file, siblings) ? siblings : "cpu" + std::to_string(cpu));
  }
  const int count = static_cast<int>(cores.size());
  const int quota = quota_cpus();
  return quota > 0 && quota < count ? quota : count;
}
#else
int physical_cores() { return static_cast<int>(std::thread::hardware_concurrency()); }
#endif

int default_threads() {
  const int cores = physical_cores();
  return cores < 1 ? 1 : cores > kMaxThreads ? kMaxThreads : cores;
}

thread_local bool inside_body = false;

class Pool {
 public:
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  void set_threads(int threads) { threads_.store(threads, std::memory_order_relaxed); }

  void run(std::int64_t tasks, TaskBody body) {
    const std::lock_guard one_caller(caller_);
    const auto helpers = static_cast<std::uint64_t>(std::min<std::int64_t>(threads(), tasks) - 1);
    grow(helpers);
    body_ = &body;
    tasks_ = tasks;
    takers_ = static_cast<std::int64_t>(helpers) + 1;
    for (std::int64_t taker = 0; taker < takers_; ++taker) {
      next_of(taker).store(first_task(tasks, takers_, taker), std::memory_order_relaxed);
    }
    left_.store(0, std::memory_order_relaxed);
    failure_ = nullptr;
    const std::uint64_t epoch = (state_.load(std::memory_order_relaxed) >> kEpochShift) + 1;
    // Publishes the job. A worker joins by taking one of the `helpers` places in the state word, so
    // one that wakes up late finds no place and the caller never waits for it.
    state_.store(epoch << kEpochShift | helpers, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      const std::lock_guard lock(sleep_);
      wake_.notify_all();
    }
    work(0);
    const std::uint64_t places =
        state_.fetch_and(~kPlacesMask, std::memory_order_acq_rel) & kPlacesMask;
    const std::uint64_t joined = helpers - places;
    for (int spin = 0; left_.load(std::memory_order_acquire) != joined; ++spin) {
      if (spin < kSpins) {
        relax();
      } else {
        std::this_thread::yield();  // the worker we wait for may need this very core
      }
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  static constexpr int kEpochShift = 16;
  static constexpr std::uint64_t kPlacesMask = (std::uint64_t{1} << kEpochShift) - 1;
  // Some tens of microseconds: longer than the gap between two ops of one pass, shorter than
  // anything a user would notice as load.
  static constexpr int kSpins = 2000;

  std::atomic<std::int64_t>& next_of(std::int64_t taker) {
    return next_[static_cast<std::size_t>(taker)].task;
  }

  // Each thread takes its own tasks, then those that others have left. Were there one counter for
  // all, each task would wait for it to come from the core that used it last: 0.2 us where cores
  // share no cache.
  void work(std::int64_t taker) {
    inside_body = true;
    for (std::int64_t i = 0; i < takers_; ++i) {
      const std::int64_t owner = (taker + i) % takers_;
      std::atomic<std::int64_t>& next = next_of(owner);
      const std::int64_t end = first_task(tasks_, takers_, owner + 1);
      for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < end;) {
        try {
          (*body_)(task);
        } catch (...) {
          fail(std::current_exception());
        }
      }
    }
    inside_body = false;
  }

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(failure_lock_);
    if (!failure_) failure_ = std::move(failure);
    for (std::int64_t i = 0; i < takers_; ++i) next_of(i).store(tasks_, std::memory_order_relaxed);
  }

  // The place taken, or 0.
  std::int64_t join() {
    std::uint64_t state = state_.load(std::memory_order_acquire);
    while (const std::uint64_t places = state & kPlacesMask) {
      if (state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel))
        return static_cast<std::int64_t>(places);
    }
    return 0;
  }

  void worker() {
    for (;;) {
      for (int spin = 0; spin < kSpins; ++spin) {
        if (const std::int64_t place = join()) {
          work(place);
          left_.fetch_add(1, std::memory_order_release);
          spin = 0;
        }
        relax();
      }
      std::unique_lock lock(sleep_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock,
                 [this] { return (state_.load(std::memory_order_seq_cst) & kPlacesMask) != 0; });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void grow(std::uint64_t workers) {
    while (workers_ < workers) {
      start_thread("a compute thread", [this] { worker(); });
      ++workers_;
    }
  }

  std::atomic<int> threads_{default_threads()};
  std::mutex caller_;
  std::uint64_t workers_ = 0;

  const TaskBody* body_ = nullptr;
  std::int64_t tasks_ = 0;
  std::int64_t takers_ = 0;                          // threads that may join, the caller counted in
  alignas(64) std::atomic<std::uint64_t> state_{0};  // epoch, free places
  // The next task of each taker.
  struct alignas(64) Next {
    std::atomic<std::int64_t> task{0};
  };
  std::array<Next, kMaxThreads> next_;
  alignas(64) std::atomic<std::uint64_t> left_{0};
  std::mutex failure_lock_;
  std::exception_ptr failure_;

  std::mutex sleep_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
};

// Never destroyed: its threads are detached and may outlive static destructors.
Pool& pool() {
  static Pool* const instance = std::make_unique<Pool>().release();
  return *instance;
}

}  // namespace

int thread_count() { return pool().threads(); }

void set_thread_count(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    throw Error(code::kInvalidArgument, "threads is " + std::to_string(threads) +
                                            ", expected a whole number from 1 to 256");
  }
  pool().set_threads(threads);
}

void parallel_for(std::int64_t tasks, TaskBody body) {
  if (tasks <= 1 || inside_body || pool().threads() == 1) {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
  pool().run(tasks, body);
}

}  // namespace hindsearch
