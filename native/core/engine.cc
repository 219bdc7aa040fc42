#include "native/core/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "native/core/thread.h"

namespace hindsearch {
namespace {

// Jobs go through in one go for this long before the workers get their turn, so that the sixteen
// submissions of one call meet in one batch, while a queue of long jobs stops no decoder.
constexpr std::chrono::milliseconds kBurst{2};

void run(std::function<void()> job) noexcept {
  try {
    job();
    job = nullptr;  // what it captured may throw from nothing but a destructor; end it in here
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hindsearch: a job of the engine failed unheard: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "hindsearch: a job of the engine failed unheard\n");
  }
}

}  // namespace

struct Engine::State {
  struct Entry {
    std::shared_ptr<Worker> worker;
    bool awake;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  std::vector<Entry> workers;
  std::vector<std::shared_ptr<Worker>> removed;  // to be destroyed on the engine's thread

  bool anything_to_do() const {
    return !jobs.empty() || !removed.empty() ||
           std::any_of(workers.begin(), workers.end(), [](const Entry& e) { return e.awake; });
  }

  void wake_all() {
    for (Entry& entry : workers) entry.awake = true;
  }

  void remove(const Worker* worker) {
    const auto entry = std::find_if(workers.begin(), workers.end(),
                                    [&](const Entry& e) { return e.worker.get() == worker; });
    if (entry == workers.end()) return;
    removed.push_back(std::move(entry->worker));
    workers.erase(entry);
  }

  [[noreturn]] void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return anything_to_do(); });
      run_jobs(lock);
      run_workers(lock);
      bury(lock);
    }
  }

  void run_jobs(std::unique_lock<std::mutex>& lock) {
    const auto start = std::chrono::steady_clock::now();
    while (!jobs.empty()) {
      std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      run(std::move(job));
      lock.lock();
      wake_all();
      if (std::chrono::steady_clock::now() - start > kBurst) return;
    }
  }

  void run_workers(std::unique_lock<std::mutex>& lock) {
    // By index, since workers may come and go while the lock is open; one that is passed over then
    // stays awake for the next round.
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (!workers[i].awake) continue;
      const std::shared_ptr<Worker> worker = workers[i].worker;
      workers[i].awake = false;  // before the turn, so that a wake() during it is not lost
      lock.unlock();
      bool more = false;
      std::exception_ptr failure;
      try {
        more = worker->work();
      } catch (...) {
        failure = std::current_exception();
        worker->failed(failure);
      }
      lock.lock();
      if (failure) remove(worker.get());
      if (!more) continue;
      for (Entry& entry : workers) {
        if (entry.worker == worker) entry.awake = true;
      }
    }
  }

  void bury(std::unique_lock<std::mutex>& lock) {
    if (removed.empty()) return;
    std::vector<std::shared_ptr<Worker>> dead;
    dead.swap(removed);
    lock.unlock();
    dead.clear();
    lock.lock();
  }
};

Engine::Engine() : state_(std::make_unique<State>().release()) {
  start_thread("the engine's thread", [state = state_] { state->loop(); });
}

void Engine::post(std::function<void()> job) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(std::move(job));
  }
  state_->changed.notify_one();
}

void Engine::add_worker(std::shared_ptr<Worker> worker) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->workers.push_back({std::move(worker), true});
  }
  state_->changed.notify_one();
}

void Engine::remove_worker(const Worker* worker) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->remove(worker);
  }
  state_->changed.notify_one();
}

void Engine::wake() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->wake_all();
  }
  state_->changed.notify_one();
}

// Nobody joins the thread and nobody frees its state: a process may exit while a job is running,
// and a destructor that joined would wait for that job, in an order of static destructors that
// nobody controls. A process that ends takes its threads with it.
Engine& engine() {
  static Engine instance;
  return instance;
}

}  // namespace hindsearch
