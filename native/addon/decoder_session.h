// A decoder on the engine's thread, and what it has finished, for JavaScript to collect.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "native/addon/call.h"
#include "native/addon/shared_model.h"
#include "native/core/engine.h"
#include "native/rollout/decoder.h"

namespace hindsearch {

// A call of next(): filled by whichever thread finds results first.
class NextCall : public Call {
 public:
  using Call::Call;

 protected:
  std::vector<SegmentResult> results_;  // empty: nothing goes on without the caller

 private:
  friend class DecoderSession;
};

// Sequences go by the numbers that JavaScript gave them when it submitted them; the decoder's own
// numbers exist only once the engine has come round to it.
class DecoderSession final : public Worker, public std::enable_shared_from_this<DecoderSession> {
 public:
  using Command = std::function<void(DecoderSession&, Decoder&)>;

  // --- Engine's thread ---
  DecoderSession(const SharedModel& model, const DecoderOptions& options, TokenBytes tokens);
  bool work() override;
  void failed(std::exception_ptr error) noexcept override;

  void bind(std::int64_t number, SequenceId id);
  void unbind(std::int64_t number);  // and drops the result that nobody has collected
  // The decoder's id. Throws Error(INVALID_ARGUMENT) when the engine refused the sequence.
  SequenceId id(std::int64_t number) const;

  // --- JavaScript thread ---
  // Queues `command`. If it throws, `sequences` are reported as failed.
  void post(Command command, std::vector<std::int64_t> sequences);
  void wait(const std::shared_ptr<NextCall>& call);
  // The call that waits, which then waits no longer.
  std::shared_ptr<NextCall> stop_waiting();
  void close() noexcept;

  DecoderStats stats() const;
  std::size_t bytes() const { return bytes_; }

 private:
  void execute(const Command& command, const std::vector<std::int64_t>& sequences);
  void publish(std::vector<SegmentResult> finished, bool stalled, std::exception_ptr failure);
  void deliver();  // with the mutex held

  // Engine's thread.
  std::unique_ptr<Decoder> decoder_;  // null once closed
  std::unordered_map<std::int64_t, SequenceId> ids_;
  std::unordered_map<SequenceId, std::int64_t> numbers_;
  std::atomic<std::size_t> bytes_{0};

  // Both threads.
  mutable std::mutex mutex_;
  // At most one per sequence that is not released: each waits for the caller then.
  std::vector<SegmentResult> finished_;
  std::shared_ptr<NextCall> waiting_;
  std::int64_t posted_ = 0;     // commands that the engine has not come round to
  bool stalled_ = true;         // the last step found nothing to do
  std::exception_ptr failure_;  // of the last step, until somebody has heard of it
  DecoderStats stats_;
};

}  // namespace hindsearch
