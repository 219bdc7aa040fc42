#include "native/core/thread_pool.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch {
namespace {

class Threads {
 public:
  explicit Threads(int threads) : before_(thread_count()) { set_thread_count(threads); }
  ~Threads() { set_thread_count(before_); }

 private:
  int before_;
};

TEST(every_task_runs_exactly_once) {
  for (const int threads : {1, 2, 5}) {
    const Threads scope(threads);
    for (const std::int64_t tasks : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      parallel_for(tasks, [&](std::int64_t task) { ++runs[static_cast<std::size_t>(task)]; });
      for (const auto& count : runs) CHECK_EQ(count.load(), 1);
    }
  }
}

// Threads begin where first_task() says, and nobody who has work of his own takes another's.
TEST(threads_have_tasks_of_their_own) {
  const Threads scope(2);
  for (int job = 0; job < 20; ++job) {
    std::vector<std::thread::id> ran(8);
    std::atomic<int> arrived{0};
    parallel_for(8, [&](std::int64_t task) {
      ran[static_cast<std::size_t>(task)] = std::this_thread::get_id();
      // Each waits for the other at every task, so neither is done early and helps.
      ++arrived;
      while (arrived.load() < 2 * static_cast<int>(task % 4 + 1)) std::this_thread::yield();
    });
    for (std::size_t task = 0; task < 8; ++task) CHECK(ran[task] == ran[task < 4 ? 0 : 4]);
    CHECK(ran[0] == std::this_thread::get_id());
    CHECK(ran[4] != ran[0]);
  }
  CHECK_EQ(first_task(8, 2, 0), 0);
  CHECK_EQ(first_task(8, 2, 1), 4);
  CHECK_EQ(first_task(8, 2, 2), 8);
  CHECK_EQ(first_task(5, 3, 1), 1);
}

// A thread that does not get on leaves the rest of its tasks to the others.
TEST(threads_help_each_other) {
  const Threads scope(2);
  std::atomic<int> done{0};
  parallel_for(10, [&](std::int64_t task) {
    if (task == 0) {
      while (done.load() < 9) std::this_thread::yield();
    }
    ++done;
  });
  CHECK_EQ(done.load(), 10);
}

TEST(many_short_jobs_one_after_the_other) {
  const Threads scope(4);
  std::atomic<std::int64_t> total{0};
  for (int job = 0; job < 20000; ++job) {
    parallel_for(3, [&](std::int64_t task) { total += task + 1; });
  }
  CHECK_EQ(total.load(), 20000 * 6);
}

TEST(workers_wake_after_they_slept) {
  const Threads scope(2);
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Two tasks that wait for each other: one thread alone would never finish.
    std::atomic<int> arrived{0};
    parallel_for(2, [&](std::int64_t) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    CHECK_EQ(arrived.load(), 2);
  }
}

TEST(the_first_exception_comes_out) {
  for (const int threads : {1, 3}) {
    const Threads scope(threads);
    std::string message;
    try {
      parallel_for(100, [](std::int64_t task) {
        if (task == 7) throw std::runtime_error("task 7");
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    CHECK_EQ(message, "task 7");
    // And the pool still works.
    std::atomic<int> runs{0};
    parallel_for(10, [&](std::int64_t) { ++runs; });
    CHECK_EQ(runs.load(), 10);
  }
}

TEST(a_nested_call_runs_serially) {
  const Threads scope(3);
  std::atomic<int> runs{0};
  parallel_for(4, [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(5, [&](std::int64_t) {
      if (std::this_thread::get_id() == self) ++runs;
    });
  });
  CHECK_EQ(runs.load(), 20);
}

TEST(callers_take_turns) {
  const Threads scope(2);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int job = 0; job < 300; ++job)
        parallel_for(8, [&](std::int64_t task) { total += task; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(total.load(), 3 * 300 * 28);
}

TEST(thread_counts_are_checked) {
  CHECK(thread_count() >= 1);
  for (const int bad : {0, -1, 257}) CHECK_ERROR(code::kInvalidArgument, set_thread_count(bad));
}

}  // namespace
}  // namespace hindsearch
