#include "native/core/engine.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch {
namespace {

using std::chrono::milliseconds;

// Returns once every job posted before it has run.
void drain() {
  auto done = std::make_shared<std::promise<void>>();
  engine().post([done] { done->set_value(); });
  done->get_future().get();
}

std::thread::id engine_thread() {
  auto id = std::make_shared<std::promise<std::thread::id>>();
  engine().post([id] { id->set_value(std::this_thread::get_id()); });
  return id->get_future().get();
}

class Countdown : public Worker {
 public:
  explicit Countdown(int turns) : left(turns) {}
  ~Countdown() override { died_on->set_value(std::this_thread::get_id()); }

  bool work() override {
    ++turns;
    if (throws) throw std::runtime_error("broken");
    const bool more = --left > 0;
    if (!more) asleep = true;
    return more;
  }
  void failed(std::exception_ptr error) noexcept override {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      message.set_value(e.what());
    }
  }

  void await_sleep() {
    while (!asleep) std::this_thread::sleep_for(milliseconds(1));
  }

  std::atomic<int> left;
  std::atomic<int> turns = 0;
  std::atomic<bool> asleep = false;
  std::atomic<bool> throws = false;
  std::promise<std::string> message;
  std::shared_ptr<std::promise<std::thread::id>> died_on =
      std::make_shared<std::promise<std::thread::id>>();
};

TEST(jobs_run_in_order_on_one_thread) {
  std::vector<int> order;
  const auto thread = engine_thread();
  bool same_thread = true;
  for (int i = 0; i < 100; ++i) {
    engine().post([&, i] {
      order.push_back(i);
      same_thread = same_thread && std::this_thread::get_id() == thread;
    });
  }
  drain();
  CHECK_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) CHECK_EQ(order[static_cast<std::size_t>(i)], i);
  CHECK(same_thread);
  CHECK(thread != std::this_thread::get_id());
}

// A handler of the host's that runs on the engine's thread could find the engine in any state.
TEST(signals_are_left_to_the_threads_of_the_host) {
  sigset_t blocked;
  sigemptyset(&blocked);
  engine().post([&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); });
  drain();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPROF, SIGUSR1}) {
    CHECK_EQ(sigismember(&blocked, signal), 1);
  }
  CHECK_EQ(sigismember(&blocked, SIGSEGV), 0);  // a fault of our own is to be reported
  sigset_t ours;
  pthread_sigmask(SIG_SETMASK, nullptr, &ours);
  CHECK_EQ(sigismember(&ours, SIGINT), 0);
}

TEST(a_job_may_post_another) {
  std::promise<int> inner;
  engine().post([&] { engine().post([&] { inner.set_value(7); }); });
  CHECK_EQ(inner.get_future().get(), 7);
}

TEST(a_throwing_job_harms_nothing) {
  engine().post([] { throw std::runtime_error("said by engine_test, expected"); });
  engine().post([] { throw 3; });
  bool ran = false;
  engine().post([&] { ran = true; });
  drain();
  CHECK(ran);
}

TEST(worker_runs_until_it_has_no_more_to_do_and_then_sleeps) {
  auto worker = std::make_shared<Countdown>(5);
  engine().add_worker(worker);
  worker->await_sleep();
  CHECK_EQ(worker->turns.load(), 5);
  std::this_thread::sleep_for(milliseconds(30));
  CHECK_EQ(worker->turns.load(), 5);  // an idle engine does not poll

  worker->asleep = false;
  worker->left = 3;
  engine().wake();
  worker->await_sleep();
  CHECK_EQ(worker->turns.load(), 8);

  worker->asleep = false;
  worker->left = 1;
  drain();  // a job is a reason to look again as well
  worker->await_sleep();
  CHECK_EQ(worker->turns.load(), 9);
  engine().remove_worker(worker.get());
}

TEST(workers_take_turns_and_jobs_come_between) {
  auto a = std::make_shared<Countdown>(1 << 30);
  auto b = std::make_shared<Countdown>(1 << 30);
  engine().post([&] {  // both at once, so that neither has a lead
    engine().add_worker(a);
    engine().add_worker(b);
  });
  int gap = 0;
  // Short jobs may all go through before a turn; hangs if the workers never got one.
  for (int i = 0; i < 20 || b->turns == 0; ++i) {
    engine().post([&] { gap = std::max(gap, std::abs(a->turns.load() - b->turns.load())); });
    drain();  // comes back although both workers always have more to do
  }
  engine().remove_worker(a.get());
  engine().remove_worker(b.get());
  CHECK(gap <= 1);
  CHECK(a->turns.load() > 0);
}

TEST(short_jobs_go_through_together_and_long_ones_stop_no_worker) {
  auto worker = std::make_shared<Countdown>(1 << 30);
  engine().add_worker(worker);
  int before = 0, after = 0;
  std::promise<void> done;
  engine().post([&] {  // from inside a job, so that all four wait together
    engine().post([] { std::this_thread::sleep_for(milliseconds(5)); });
    engine().post([&] { before = worker->turns.load(); });
    engine().post([&] { std::this_thread::sleep_for(milliseconds(5)); });
    engine().post([&] {
      after = worker->turns.load();
      done.set_value();
    });
  });
  done.get_future().get();
  engine().remove_worker(worker.get());
  CHECK(before >= 1);
  CHECK_EQ(after, before + 1);
}

TEST(removed_worker_gets_no_turn_and_dies_on_the_engine) {
  auto worker = std::make_shared<Countdown>(1 << 30);
  engine().add_worker(worker);
  drain();
  engine().post([w = worker.get()] { engine().remove_worker(w); });
  drain();
  const int turns = worker->turns;
  engine().wake();
  drain();
  CHECK_EQ(worker->turns.load(), turns);

  auto owned = std::make_shared<Countdown>(1 << 30);
  auto died_on = owned->died_on->get_future();
  const Worker* name = owned.get();
  engine().add_worker(std::move(owned));
  engine().remove_worker(name);
  CHECK(died_on.get() == engine_thread());
}

TEST(a_worker_that_throws_is_told_and_let_go) {
  auto worker = std::make_shared<Countdown>(10);
  worker->throws = true;
  engine().add_worker(worker);
  CHECK_EQ(worker->message.get_future().get(), std::string("broken"));
  drain();
  CHECK_EQ(worker->turns.load(), 1);
  drain();
  CHECK_EQ(worker->turns.load(), 1);
}

TEST(a_wake_during_a_turn_is_not_lost) {
  struct Sleeper : Worker {
    bool work() override {
      const int turn = ++turns;
      if (turn == 1) {
        started.set_value();
        woken.get_future().get();
      }
      if (turn == 2) second.set_value();
      return false;
    }
    void failed(std::exception_ptr) noexcept override {}
    std::atomic<int> turns = 0;
    std::promise<void> started, woken, second;
  };
  auto worker = std::make_shared<Sleeper>();
  engine().add_worker(worker);
  worker->started.get_future().get();
  engine().wake();
  worker->woken.set_value();
  worker->second.get_future().get();  // hangs if the wake was lost
  engine().remove_worker(worker.get());
}

}  // namespace
}  // namespace hindsearch
