// The one pool of compute threads of the process.
#pragma once

#include <cstdint>
#include <functional>

namespace hindsearch {

// Threads in use, the caller counted in; default: the number of physical cores this process may
// use.
int thread_count();
// 1..256; takes effect with the next parallel_for. Throws Error(INVALID_ARGUMENT).
void set_thread_count(int threads);

// Runs body(task) for every task in [0, tasks), on all threads, and returns when all are done.
// Tasks are handed out dynamically, so a body must write only what belongs to its task. The first
// exception of any body is rethrown here. Must not be nested: called from inside a body it runs
// serially. One caller at a time; others wait.
void parallel_for(std::int64_t tasks, const std::function<void(std::int64_t)>& body);

}  // namespace hindsearch
