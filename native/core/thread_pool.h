// The one pool of compute threads of the process.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hindsearch {

// A reference to a callable `void(std::int64_t)`. Unlike std::function it never allocates: passes
// of the decoder hand out thousands of small tasks.
class TaskBody {
 public:
  template <class Body>
  requires(!std::is_same_v<std::remove_cvref_t<Body>, TaskBody>)
      TaskBody(Body&& body)  // NOLINT: a callable is a body
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, std::int64_t task) {
          (*static_cast<std::remove_reference_t<Body>*>(object))(task);
        }) {}
  void operator()(std::int64_t task) const { call_(object_, task); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

// Threads in use, the caller counted in; default: the number of physical cores this process may
// use.
int thread_count();
// 1..256; takes effect with the next parallel_for. Throws Error(INVALID_ARGUMENT).
void set_thread_count(int threads);

// Runs body(task) for every task in [0, tasks), on all threads, and returns when all are done.
// Each thread begins with tasks of its own, neighbours of each other, and then helps the others: who
// runs a task is likely, not certain, and a body must write only what belongs to its task. The first
// exception of any body is rethrown here. Must not be nested: called from inside a body it runs
// serially. One caller at a time; others wait.
void parallel_for(std::int64_t tasks, TaskBody body);

// Of `takers` threads that parallel_for() gives `tasks` to, the one numbered `taker` begins with
// those from here to where the next one's begin. Takers, at most tasks, are thread_count() or fewer.
inline std::int64_t first_task(std::int64_t tasks, std::int64_t takers, std::int64_t taker) {
  return tasks * taker / takers;
}

}  // namespace hindsearch
