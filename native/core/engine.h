// The one thread on which models and decoders compute.
//
// A model is neither safe nor fast under two callers at once, so whatever touches one runs here, a
// thing at a time, and is spread over the cores from inside (thread_pool.h). Callers never wait:
// they post a job and hear of its end through whatever the job itself settles.
#pragma once

#include <exception>
#include <functional>
#include <memory>

namespace hindsearch {

// A source of continuous work, such as a decoder with sequences in flight. Both functions are
// called on the engine's thread only.
class Worker {
 public:
  virtual ~Worker() = default;
  // One short turn, a step over the batch. Returns whether there is more to do now; if not, the
  // next turn comes after the next wake() or the next job.
  virtual bool work() = 0;
  // work() threw: the engine has let go of this worker.
  virtual void failed(std::exception_ptr error) noexcept = 0;
};

// All functions may be called from any thread, from inside jobs and workers too, and none blocks.
class Engine {
 public:
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Runs `job` after all jobs posted before it. A job settles its own failures; one that lets an
  // exception out has a fault, which is reported on stderr and harms nothing else.
  void post(std::function<void()> job);

  // Gives `worker` a turn after every job, and after every turn of the others, until it has no more
  // to do. The engine shares ownership until remove_worker and drops its share on its own thread.
  void add_worker(std::shared_ptr<Worker> worker);
  // No turn begins after this call; one that is under way on the engine's thread ends first.
  void remove_worker(const Worker* worker);
  // Work has arrived from outside a job: gives every worker a turn.
  void wake();

 private:
  friend Engine& engine();
  struct State;
  Engine();
  State* const state_;  // never freed, see engine()
};

// The engine of this process; its thread starts with the first call.
Engine& engine();

}  // namespace hindsearch
