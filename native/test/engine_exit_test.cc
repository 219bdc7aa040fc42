// A process must be able to end while the engine is busy: the test is that this one does.
#include <atomic>
#include <chrono>
#include <thread>

#include "native/core/engine.h"
#include "native/test/testing.h"

namespace hindsearch {

TEST(process_ends_while_a_job_runs) {
  static std::atomic<bool> running = false;
  engine().post([] {
    running = true;
    for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  while (!running) std::this_thread::yield();
  engine().post([] {});
  CHECK(running);
}

}  // namespace hindsearch
