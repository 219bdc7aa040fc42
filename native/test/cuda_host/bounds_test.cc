// What AddressSanitizer finds with the model's help; without it there is nothing to test here.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "native/test/cuda_host/model_case.h"

#if defined(__SANITIZE_ADDRESS__)

namespace hindsearch::testing {
namespace {

// Whether AddressSanitizer ends a process that does `body`.
template <class Body>
bool is_reported(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    try {
      body();
    } catch (const Failure&) {  // of something else
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

__global__ void writes_shared(int at) { shared<char>()[at] = 1; }
__global__ void writes(char* to, int at) { to[at] = 1; }
__global__ void deep(char* out) {
  char local[8] = {};
  volatile int at = 8;
  local[at] = 1;
  *out = local[0];
}

TEST(accesses_outside_are_reported) {
  const auto run_shared = [](int at) {
    return is_reported([=] {
      OK(start(writes_shared, 1, 32, 100, at));
      OK(cudaDeviceSynchronize());
    });
  };
  CHECK(!run_shared(0) && !run_shared(99));
  CHECK(run_shared(100) && run_shared(-1));

  Array<char> x(10);
  const auto run = [&](int at) {
    return is_reported([&] {
      OK(start(writes, 1, 32, 0, x.data(), at));
      OK(cudaDeviceSynchronize());
    });
  };
  CHECK(!run(0) && !run(9));
  CHECK(run(10) && run(-1));
  // On a fiber's stack too.
  CHECK(is_reported([&] {
    OK(start(deep, 1, 32, 0, x.data()));
    OK(cudaDeviceSynchronize());
  }));
}

TEST(memory_that_was_freed_is_not_used) {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto run = [&](bool freed_first) {
    return is_reported([&] {
      char* x;
      OK(cudaMallocAsync(&x, 16, stream));
      if (freed_first) OK(cudaFreeAsync(x, stream));
      OK(start_on(stream, writes, 1, 1, 0, x, 0));
      if (!freed_first) OK(cudaFreeAsync(x, stream));
      OK(cudaStreamSynchronize(stream));
    });
  };
  CHECK(!run(false));
  CHECK(run(true));
  OK(cudaStreamDestroy(stream));
}

TEST(each_side_keeps_to_its_memory) {
  Array<char> x(10);
  CHECK(is_reported([&] { *static_cast<volatile char*>(x.data()) = 1; }));
  OK(start(writes, 1, 1, 0, x.data(), 0));
  OK(cudaDeviceSynchronize());
  CHECK(is_reported([&] { *static_cast<volatile char*>(x.data()) = 1; }));
  // A struct's member counts too; pinned memory belongs to both.
  struct Outer {
    int first;
    const char* where;
  };
  const std::vector<char> host(100);
  const auto kernel = +[](Outer outer, char* to) { *to = *outer.where; };
  CHECK(contains(fault_of([&] {
                   start(kernel, 1, 1, 0, Outer{1, host.data() + 50}, x.data());
                 }),
                 "pointer to memory that is not the device's"));
  char* pinned;
  OK(cudaMallocHost(&pinned, 8));
  *pinned = 3;
  OK(start(kernel, 1, 1, 0, Outer{1, pinned}, x.data()));
  CHECK_EQ(x.first(), 3);
  OK(cudaFreeHost(pinned));
}

}  // namespace
}  // namespace hindsearch::testing

#endif
