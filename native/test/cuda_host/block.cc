// The threads of a block.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <exception>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "native/test/cuda_host/fiber.h"
#include "native/test/cuda_host/host_model.h"
#include "native/test/cuda_host/order.h"
#include "native/test/cuda_host/symbols.h"
#include "native/test/cuda_host/unwritten.h"

namespace host_model {
namespace {

enum class State : std::uint8_t { fresh, ready, at_barrier, in_warp, gone };

struct Thread {
  uint3 index;
  State state;
  int position;  // in the order of running
  Fiber* fiber;
  // What it waits for.
  const char* what;
  Location where;
  unsigned mask;
  void* payload;
};

bool same_place(const Location& a, const Location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name());
}

std::ostream& operator<<(std::ostream& out, const Location& where) {
  return out << where.file_name() << ":" << where.line();
}
std::ostream& operator<<(std::ostream& out, const uint3& index) {
  return out << "(" << index.x << ", " << index.y << ", " << index.z << ")";
}

struct Stop {};  // leaves a kernel that has a fault

// Runs blocks on one OS thread. The first of the threads that could run runs, on the order's word,
// so that it comes as far as it can before any other: a stack is needed only by threads that wait,
// and threads that reach no barrier all share one.
class Runner {
 public:
  void run(const Launch& launch);

  Thread& current() { return *current_; }
  void* shared() {
    if (current_ == nullptr) throw Fault{"shared memory is asked for outside a kernel"};
    return shared_.get();
  }
  unsigned lane() const { return static_cast<unsigned>(current_ - threads_.data()) % 32; }
  void sync_block(const Location& where);
  void sync_warp(unsigned mask, void* payload, void (*complete)(unsigned, void* const*),
                 const char* what, const Location& where);

 private:
  void run_block();
  void set_order();
  void set_ready(Thread& thread, bool ready) {
    const auto position = static_cast<unsigned>(thread.position);
    const std::uint64_t bit = std::uint64_t{1} << position % 64;
    if (ready) {
      ready_[position / 64] |= bit;
    } else {
      ready_[position / 64] &= ~bit;
    }
  }
  Thread* first_ready() {
    for (std::size_t word = 0; word < ready_.size(); ++word) {
      if (ready_[word] != 0) return &threads_[at_[word * 64 + std::countr_zero(ready_[word])]];
    }
    return nullptr;
  }
  static void work(void* runner) { static_cast<Runner*>(runner)->work(); }
  void work();
  void wait(State state, const char* what, const Location& where, unsigned mask, void* payload);
  void open_barrier();
  void check_mask(unsigned mask, std::size_t lanes, const char* what, const Location& where);
  [[noreturn]] void fault(const std::string& what);
  std::string place() const;
  std::string waiting() const;

  const Launch* launch_ = nullptr;
  Order order_;
  std::vector<Thread> threads_;
  std::vector<std::uint16_t> at_;  // thread at a position of the order
  std::array<std::uint64_t, kThreadLimit / 64> ready_{};
  std::size_t live_ = 0;
  std::size_t arrived_ = 0;  // at the barrier
  const Thread* first_arrived_ = nullptr;
  std::array<unsigned, kThreadLimit / 32> in_warp_{};  // lanes that wait in a warp operation
  Thread* current_ = nullptr;
  std::unique_ptr<void, void (*)(void*)> shared_{nullptr, std::free};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* worker_ = nullptr;  // runs now
  Place scheduler_;
  std::exception_ptr failed_;
};

thread_local Runner runner;

void Runner::set_order() {
  order_.fill(at_);
  for (std::size_t i = 0; i < at_.size(); ++i) threads_[at_[i]].position = static_cast<int>(i);
}

void Runner::run(const Launch& launch) {
  if (launch_ != nullptr) throw Fault{"a kernel is launched by a kernel"};
  struct Busy {
    Runner* runner;
    ~Busy() {
      runner->launch_ = nullptr;
      runner->current_ = nullptr;
      runner->shared_.reset();
    }
  } busy{this};
  launch_ = &launch;
  order_.read_environment();
  const dim3& block = launch.block;
  threads_.resize(std::size_t{block.x} * block.y * block.z);
  at_.resize(threads_.size());
  blockDim = block;
  gridDim = launch.grid;
  for (unsigned z = 0; z < launch.grid.z; ++z) {
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
    }
  }
}

void Runner::run_block() {
  // An allocation of its own for every block: what one block wrote no other sees.
  shared_.reset(std::malloc(launch_->shared_bytes));
  fill_unwritten(shared_.get(), launch_->shared_bytes);
  const dim3& block = launch_->block;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const auto n = static_cast<unsigned>(i);
    threads_[i] = {};
    threads_[i].index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
  }
  set_order();
  ready_ = {};
  for (Thread& thread : threads_) set_ready(thread, true);
  live_ = threads_.size();
  arrived_ = 0;
  in_warp_ = {};
  failed_ = nullptr;
  while (Thread* next = first_ready()) {
    if (next->state == State::fresh) {
      if (idle_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>());
        fibers_.back()->start(&Runner::work, this);
        idle_.push_back(fibers_.back().get());
      }
      worker_ = idle_.back();
      idle_.pop_back();
    } else {
      worker_ = next->fiber;
      current_ = next;
      threadIdx = next->index;
    }
    switch_place(scheduler_, worker_->place());
    if (failed_ != nullptr) break;
  }
  std::string stuck;
  if (failed_ == nullptr && live_ > 0) stuck = place() + " is stuck: " + waiting();
  if (failed_ != nullptr || !stuck.empty()) {
    idle_.clear();
    for (const auto& fiber : fibers_) {
      fiber->start(&Runner::work, this);
      idle_.push_back(fiber.get());
    }
    if (failed_ != nullptr) std::rethrow_exception(std::exchange(failed_, nullptr));
    throw Fault{stuck};
  }
}

// On a fiber: runs threads from their beginning until none is fresh and first, then rests.
void Runner::work() {
  for (;;) {
    Fiber* const self = worker_;
    for (Thread* next = first_ready(); next != nullptr && next->state == State::fresh;
         next = first_ready()) {
      Thread& thread = *next;
      thread.state = State::ready;
      thread.fiber = self;
      current_ = &thread;
      threadIdx = thread.index;
      try {
        launch_->thread();
      } catch (const Stop&) {
      } catch (...) {
        failed_ = std::current_exception();
      }
      worker_ = self;
      if (failed_ != nullptr) break;
      thread.state = State::gone;
      set_ready(thread, false);
      --live_;
      // Threads that are gone are not waited for.
      if (live_ > 0 && arrived_ == live_) open_barrier();
    }
    idle_.push_back(self);
    switch_place(self->place(), scheduler_);
  }
}

void Runner::wait(State state, const char* what, const Location& where, unsigned mask,
                  void* payload) {
  Thread& thread = *current_;
  thread.state = state;
  thread.what = what;
  thread.where = where;
  thread.mask = mask;
  thread.payload = payload;
  set_ready(thread, false);
}

void Runner::open_barrier() {
  arrived_ = 0;
  if (order_.changes()) {
    ready_ = {};
    set_order();
  }
  for (Thread& thread : threads_) {
    if (thread.state != State::at_barrier) continue;
    thread.state = State::ready;
    set_ready(thread, true);
  }
}

void Runner::sync_block(const Location& where) {
  Thread& thread = *current_;
  if (arrived_ == 0) {
    first_arrived_ = &thread;
  } else if (!same_place(first_arrived_->where, where)) {
    std::ostringstream text;
    text << "waits at the __syncthreads of " << where << " while thread " << first_arrived_->index
         << " waits at that of " << first_arrived_->where;
    fault(text.str());
  }
  wait(State::at_barrier, "__syncthreads", where, 0, nullptr);
  if (++arrived_ == live_) open_barrier();
  switch_place(thread.fiber->place(), scheduler_);
}

void Runner::sync_warp(unsigned mask, void* payload, void (*complete)(unsigned, void* const*),
                       const char* what, const Location& where) {
  Thread& thread = *current_;
  const std::size_t warp = static_cast<std::size_t>(&thread - threads_.data()) / 32;
  Thread* const lanes = threads_.data() + warp * 32;
  const std::size_t count = std::min<std::size_t>(32, threads_.size() - warp * 32);
  check_mask(mask, count, what, where);
  wait(State::in_warp, what, where, mask, payload);
  unsigned& waiting = in_warp_[warp];
  waiting |= 1u << lane();
  void* payloads[32];
  bool all = (waiting & mask) == mask;
  for (unsigned left = mask; all && left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    all = lanes[i].mask == mask && same_place(lanes[i].where, where);
    payloads[i] = lanes[i].payload;
  }
  if (all) {
    complete(mask, payloads);
    waiting &= ~mask;
    for (unsigned left = mask; left != 0; left &= left - 1) {
      Thread& other = lanes[std::countr_zero(left)];
      other.state = State::ready;
      set_ready(other, true);
    }
    if (first_ready() == &thread) return;
  }
  switch_place(thread.fiber->place(), scheduler_);
}

void Runner::check_mask(unsigned mask, std::size_t lanes, const char* what, const Location& where) {
  const unsigned present = lanes == 32 ? 0xffffffff : (1u << lanes) - 1;
  const bool own = (mask >> lane() & 1) != 0;
  if (own && (mask & ~present) == 0) return;
  std::ostringstream text;
  text << "calls " << what << " at " << where << " with a mask (0x" << std::hex << mask << std::dec
       << ") ";
  if (own) {
    text << "of lanes that its warp of " << lanes << " does not have";
  } else {
    text << "that has not its own lane " << lane();
  }
  fault(text.str());
}

std::string Runner::place() const {
  std::ostringstream text;
  text << symbol_name(launch_->kernel) << ", block " << blockIdx;
  return text.str();
}

void Runner::fault(const std::string& what) {
  std::ostringstream text;
  text << place() << ", thread " << current_->index << " " << what;
  failed_ = std::make_exception_ptr(Fault{text.str()});
  throw Stop{};
}

std::string Runner::waiting() const {
  std::ostringstream text;
  text << live_ << " of " << threads_.size() << " threads still run";
  // One line for each place where threads wait.
  std::vector<const Thread*> shown;
  for (const Thread& thread : threads_) {
    if (thread.state == State::gone) continue;
    const auto same = [&](const Thread* other) {
      return other->state == thread.state && same_place(other->where, thread.where);
    };
    if (std::any_of(shown.begin(), shown.end(), same)) continue;
    shown.push_back(&thread);
    const auto count = std::count_if(threads_.begin(), threads_.end(),
                                     [&](const Thread& other) { return same(&other); });
    text << "; " << count << " of them, first " << thread.index << ", wait in " << thread.what
         << " at " << thread.where;
    if (thread.state == State::in_warp)
      text << " for lanes 0x" << std::hex << thread.mask << std::dec;
  }
  return text.str();
}

}  // namespace

void run(const Launch& launch) { runner.run(launch); }
void* shared_bytes() { return runner.shared(); }
unsigned lane() { return runner.lane(); }
void sync_block(const Location& where) { runner.sync_block(where); }
void sync_warp(unsigned mask, void* payload, void (*complete)(unsigned, void* const*),
               const char* what, const Location& where) {
  runner.sync_warp(mask, payload, complete, what, where);
}

}  // namespace host_model
