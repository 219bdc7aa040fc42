// Stacks to run on, and switching between them.
#pragma once

#include <cstddef>
#include <utility>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace host_model {

// Where an OS thread or a fiber goes on when it is switched to.
struct Place {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  const void* stack = nullptr;  // its lowest address, and its size: for AddressSanitizer
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;
};

// A stack of its own with a guard page below.
class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The next switch here calls entry(argument), which must not return, on an empty stack. What was
  // on the stack is forgotten.
  void start(void (*entry)(void*), void* argument);
  Place& place() { return place_; }

 private:
  void* memory_;
  Place place_;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  friend void enter_fiber(Fiber* fiber);
};

// Leaves `from`, to be switched back to, and goes on at `to`.
void switch_place(Place& from, Place& to);

}  // namespace host_model
