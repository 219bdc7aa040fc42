#include "native/core/thread.h"

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#endif

#include "native/core/error.h"

namespace hindsearch {
namespace {

// A new thread inherits the signal mask of the one that starts it.
class SignalsBlocked {
 public:
#if defined(__unix__) || defined(__APPLE__)
  SignalsBlocked() {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
      sigdelset(&signals, fault);
    }
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
#endif
};

}  // namespace

void start_thread(const char* what, std::function<void()> body) {
  try {
    const SignalsBlocked blocked;
    std::thread(std::move(body)).detach();
  } catch (const std::system_error& error) {
    throw Error(code::kOutOfMemory, std::string(what) + " could not be started: " + error.what() +
                                        "; use fewer threads or raise the process's limit");
  }
}

}  // namespace hindsearch
