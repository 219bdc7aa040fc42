#include "native/test/cuda_host/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define HOST_MODEL_ASAN 1
#else
#define HOST_MODEL_ASAN 0
#endif

namespace host_model {
namespace {

// AddressSanitizer puts red zones around locals.
constexpr std::size_t kStackBytes = HOST_MODEL_ASAN ? 512 * 1024 : 128 * 1024;

// Fibers learn here whom they were switched from: the bounds of an OS thread's stack are known to
// AddressSanitizer alone.
thread_local Place* left = nullptr;

void arrive(Place& here) {
#if HOST_MODEL_ASAN
  const void* stack = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(here.fake_stack, &stack, &bytes);
  if (left != nullptr) {
    left->stack = stack;
    left->stack_bytes = bytes;
  }
#else
  (void)here;
#endif
}

}  // namespace

void enter_fiber(Fiber* fiber) {
  fiber->place_.fake_stack = nullptr;
  arrive(fiber->place_);
  fiber->entry_(fiber->argument_);
  __builtin_unreachable();
}

#if defined(__x86_64__)
// The registers that a callee keeps go onto the stack that is left and come from the one entered. A
// signal mask, which swapcontext would save with two system calls, no kernel changes.
asm(R"(
  .text
  .hidden host_model_switch_stack
  .globl host_model_switch_stack
  .type host_model_switch_stack, @function
host_model_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size host_model_switch_stack, .-host_model_switch_stack

  .hidden host_model_first_frame
  .globl host_model_first_frame
  .type host_model_first_frame, @function
host_model_first_frame:
  movq %r12, %rdi
  callq *%r13
  ud2
  .size host_model_first_frame, .-host_model_first_frame
)");
extern "C" void host_model_switch_stack(void** from, void* to);
extern "C" void host_model_first_frame();
#endif

Fiber::Fiber() {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  memory_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory_, page, PROT_NONE);
  place_.stack = static_cast<char*>(memory_) + page;
  place_.stack_bytes = kStackBytes - page;
}

Fiber::~Fiber() {
#if HOST_MODEL_ASAN
  __asan_unpoison_memory_region(place_.stack, place_.stack_bytes);
#endif
  munmap(memory_, kStackBytes);
}

void Fiber::start(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
#if HOST_MODEL_ASAN
  __asan_unpoison_memory_region(place_.stack, place_.stack_bytes);
#endif
#if defined(__x86_64__)
  auto* top = static_cast<std::uintptr_t*>(memory_) + kStackBytes / sizeof(std::uintptr_t);
  // What host_model_switch_stack takes off: r15, r14, r13, r12, rbx, rbp, and where to return to. A
  // function expects its return address 8 bytes below a 16-byte boundary; the first frame calls
  // one.
  const std::uintptr_t first[] = {0,
                                  0,
                                  reinterpret_cast<std::uintptr_t>(&enter_fiber),
                                  reinterpret_cast<std::uintptr_t>(this),
                                  0,
                                  0,
                                  reinterpret_cast<std::uintptr_t>(&host_model_first_frame),
                                  0};
  std::uintptr_t* pointer = top - 9;
  for (const std::uintptr_t word : first) *pointer++ = word;
  place_.stack_pointer = top - 9;
#else
  getcontext(&place_.context);
  place_.context.uc_stack.ss_sp = const_cast<void*>(place_.stack);
  place_.context.uc_stack.ss_size = place_.stack_bytes;
  place_.context.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&place_.context, reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
    enter_fiber(reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low));
  }),
              2, static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#endif
}

void switch_place(Place& from, Place& to) {
  left = &from;
#if HOST_MODEL_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(__x86_64__)
  host_model_switch_stack(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
  arrive(from);
}

}  // namespace host_model
