#include "native/addon/decoder_session.h"

#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "native/core/error.h"

namespace hindsearch {

DecoderSession::DecoderSession(const SharedModel& model, const DecoderOptions& options,
                               TokenBytes tokens)
    : decoder_(std::make_unique<Decoder>(model.owner(), options, std::move(tokens))) {
  bytes_ = decoder_->bytes();
  stats_ = decoder_->stats();
}

bool DecoderSession::work() {
  if (!decoder_) return false;
  std::vector<SegmentResult> finished;
  bool more = false;
  std::exception_ptr failure;
  try {
    more = decoder_->step(finished);
  } catch (...) {
    // A step that throws changes nothing: next() reports it, and the call of next() after that
    // tries once more.
    failure = std::current_exception();
  }
  for (SegmentResult& result : finished) result.sequence = numbers_.at(result.sequence);
  bytes_ = decoder_->bytes();
  publish(std::move(finished), !more && !failure, failure);
  return more;
}

// There was no memory for the results of a step that went well.
void DecoderSession::failed(std::exception_ptr error) noexcept {
  try {
    publish({}, true, std::move(error));
  } catch (...) {
    // Nor for saying so.
  }
}

void DecoderSession::publish(std::vector<SegmentResult> finished, bool stalled,
                             std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  std::move(finished.begin(), finished.end(), std::back_inserter(finished_));
  stalled_ = stalled;
  if (failure) failure_ = std::move(failure);
  if (decoder_) stats_ = decoder_->stats();
  deliver();
}

void DecoderSession::deliver() {
  const bool nothing_comes = stalled_ && posted_ == 0;
  if (!waiting_ || (finished_.empty() && !failure_ && !nothing_comes)) return;
  const std::shared_ptr<NextCall> call = std::exchange(waiting_, nullptr);
  if (!call->claim()) return;  // aborted: the results are for the next one
  if (!finished_.empty()) {
    call->results_ = std::exchange(finished_, {});
  } else if (failure_) {
    call->fail(std::exchange(failure_, nullptr));
  }
  call->finish();
}

void DecoderSession::bind(std::int64_t number, SequenceId id) {
  ids_[number] = id;
  numbers_[id] = number;
}

void DecoderSession::unbind(std::int64_t number) {
  const auto entry = ids_.find(number);
  if (entry == ids_.end()) return;
  numbers_.erase(entry->second);
  ids_.erase(entry);
  const std::lock_guard lock(mutex_);
  std::erase_if(finished_, [&](const SegmentResult& result) { return result.sequence == number; });
}

SequenceId DecoderSession::id(std::int64_t number) const {
  const auto entry = ids_.find(number);
  if (entry == ids_.end()) {
    throw Error(code::kInvalidArgument,
                "sequence " + std::to_string(number) + " failed before it began and cannot go on.");
  }
  return entry->second;
}

void DecoderSession::post(Command command, std::vector<std::int64_t> sequences) {
  // First the step that can fail for want of memory. The job cannot run out before it is counted:
  // execute() needs the mutex to count it down.
  const std::lock_guard lock(mutex_);
  engine().post([self = shared_from_this(), command = std::move(command),
                 sequences = std::move(sequences)] { self->execute(command, sequences); });
  ++posted_;
}

void DecoderSession::execute(const Command& command, const std::vector<std::int64_t>& sequences) {
  std::vector<SegmentResult> refused;
  try {
    if (decoder_) command(*this, *decoder_);
  } catch (const std::exception& error) {
    for (const std::int64_t number : sequences) {
      SegmentResult result;
      result.sequence = number;
      result.reason = FinishReason::failed;
      result.error = error.what();
      refused.push_back(std::move(result));
    }
  }
  const std::lock_guard lock(mutex_);
  --posted_;
  stalled_ = false;  // the engine gives us a turn after every job
  std::move(refused.begin(), refused.end(), std::back_inserter(finished_));
  deliver();
}

void DecoderSession::wait(const std::shared_ptr<NextCall>& call) {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = call;
    deliver();
  }
  engine().wake();
}

std::shared_ptr<NextCall> DecoderSession::stop_waiting() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, nullptr);
}

void DecoderSession::close() noexcept {
  engine().remove_worker(this);
  try {
    // Behind the commands still queued, which keep this session alive for a while.
    engine().post([self = shared_from_this()] { self->decoder_.reset(); });
  } catch (const std::bad_alloc&) {
    // Then it goes with its last owner.
  }
}

DecoderStats DecoderSession::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace hindsearch
