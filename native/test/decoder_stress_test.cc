// Thousands of random calls on decoders too small for them. Whatever the schedule was, every
// segment must be what the same segment is when it is decoded alone, and nothing may get stuck or
// leak.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "native/test/decoder_fixture.h"
#include "native/test/set_weights.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

// What the driver knows of a sequence.
struct Known {
  std::vector<Token> text;  // all tokens before the segment
  SegmentOptions options;
  RandomKey key;
  std::int32_t reserve = 0;
  bool waiting = false;
  bool cancelled = false;
};

class Driver {
 public:
  Driver(std::uint32_t seed, bool change_weights)
      : random_(seed), change_weights_(change_weights), model_(tiny_model()) {
    for (std::uint64_t m = 0; m < 2; ++m) variants_.push_back(tiny_model(ComputeType::f32, m + 1));
    of_version_[model_->version()] = 0;
    decoder_ = std::make_unique<Decoder>(
        model_, DecoderOptions{pick(8, 24) * std::int64_t{kPageTokens}, pick(1, 6), pick(1, 24)},
        tiny_bytes());
    pages_ = decoder_->stats().pages_total;
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      act();
      check_stats();
    }
    drain();
  }
  std::int64_t compared() const { return compared_; }

 private:
  std::int32_t pick(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(random_);
  }

  SegmentOptions pick_segment(std::int32_t most) {
    SegmentOptions options = segment(pick(0, std::min(most, 20)), pick(0, 1) ? 1.0f : 0.7f);
    if (pick(0, 3) == 0)
      options.stops = {text_of({pick(1, 63)}), text_of({pick(1, 63), pick(1, 63)})};
    if (pick(0, 3) == 0) options.end_tokens = {pick(0, 63)};
    if (pick(0, 5) == 0) options.sampling.top_k = 4;
    return options;
  }

  SequenceId pick_id() {
    auto it = known_.begin();
    std::advance(it, pick(0, static_cast<std::int32_t>(known_.size()) - 1));
    return it->first;
  }

  void act() {
    const std::int32_t what = pick(0, 99);
    if (known_.empty() || (what < 8 && known_.size() < 40)) return submit();
    if (what < 18 && known_.size() < 40) return fork(pick_id());
    if (what < 28) return extend(pick_id());
    if (what < 31) return cancel(pick_id());
    if (what < 36) return release(pick_id());
    if (what == 36 && change_weights_) return change();
    step();
  }

  void submit() {
    Known known;
    const std::int32_t most =
        static_cast<std::int32_t>(std::min<std::int64_t>(pages_ * kPageTokens, 120));
    known.text = prompt_of(pick(1, most / 2), pick(0, 3));
    const auto length = static_cast<std::int32_t>(known.text.size());
    known.options = pick_segment(most - length);
    known.reserve = pick(length + known.options.max_new_tokens, most);
    known.key = {77, next_stream_++};
    const SequenceId id = decoder_->submit(known.text, known.options, known.key, known.reserve);
    known_.emplace(id, std::move(known));
  }

  void fork(SequenceId parent_id) {
    const Known& parent = known_.at(parent_id);
    if (parent.waiting && forkable_.count(parent_id) == 0) return;
    const std::vector<Token> text = parent.waiting ? forkable_.at(parent_id) : parent.text;
    const std::int32_t room = parent.reserve - static_cast<std::int32_t>(text.size());
    Known child;
    child.text = text;
    child.reserve = parent.reserve;
    child.options = pick_segment(room);
    std::vector<RandomKey> keys;
    for (std::int32_t n = pick(1, 4); n > 0; --n) keys.push_back({77, next_stream_++});
    const auto ids = decoder_->fork(parent_id, keys, child.options);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      child.key = keys[i];
      known_.emplace(ids[i], child);
    }
    if (pick(0, 3) == 0) release(parent_id);
  }

  void extend(SequenceId id) {
    Known& known = known_.at(id);
    if (!known.waiting) return;
    const std::int32_t room = known.reserve - static_cast<std::int32_t>(known.text.size());
    const std::vector<Token> more = prompt_of(pick(0, std::min(room, 25)), pick(0, 9));
    known.options = pick_segment(20);
    decoder_->extend(id, more, known.options);
    known.text = joined(known.text, more);
    known.waiting = known.cancelled = false;
  }

  void cancel(SequenceId id) {
    decoder_->cancel(id);
    known_.at(id).cancelled = !known_.at(id).waiting;
  }

  void release(SequenceId id) {
    decoder_->release(id);
    known_.erase(id);
    forkable_.erase(id);
  }

  void change() {
    const std::size_t next = 1 - of_version_.at(model_->version());
    set_weights(*model_, [&](const std::string& name, std::vector<float>& values) {
      values = variants_[next]->weight(name);
    });
    of_version_[model_->version()] = next;
  }

  bool step() {
    std::vector<SegmentResult> finished;
    const bool busy = decoder_->step(finished);
    for (const SegmentResult& result : finished) check(result);
    return busy;
  }

  void check(const SegmentResult& result) {
    Known& known = known_.at(result.sequence);
    CHECK(!known.waiting);
    CHECK(result.reason != FinishReason::failed);
    CHECK_EQ(known.cancelled, result.reason == FinishReason::cancelled);
    CHECK_EQ(result.tokens.size(), result.log_probs.size());
    if (result.first_version == result.last_version) {
      compare(result, known);
    } else {
      compare_each(result, known);
    }
    forkable_[result.sequence] = known.text;  // the caller's text ends here
    known.text = joined(known.text, result.tokens);
    known.waiting = true;
  }

  void compare(const SegmentResult& result, const Known& known) {
    const auto& model = variants_[of_version_.at(result.first_version)];
    const SegmentResult expected = alone_within(model, known.text, known);
    if (known.cancelled) {
      CHECK(result.tokens.size() <= expected.tokens.size());
    } else {
      CHECK(result.reason == expected.reason);
      CHECK_EQ(result.tokens.size(), expected.tokens.size());
      CHECK_EQ(result.stop_index, expected.stop_index);
    }
    for (std::size_t i = 0; i < result.tokens.size(); ++i) {
      CHECK_EQ(result.tokens[i], expected.tokens[i]);
      CHECK_EQ(result.log_probs[i], expected.log_probs[i]);
    }
    ++compared_;
  }

  // The weights changed on the way: every token is that of one variant.
  void compare_each(const SegmentResult& result, const Known& known) {
    std::vector<Token> text = known.text;
    SegmentOptions one = segment(1);
    one.sampling = known.options.sampling;
    for (std::size_t i = 0; i < result.tokens.size(); ++i) {
      bool found = false;
      for (const auto& model : variants_) {
        const SegmentResult expected = alone(model, text, one, known.key);
        found = found || (expected.tokens[0] == result.tokens[i] &&
                          expected.log_probs[0] == result.log_probs[i]);
      }
      CHECK(found);
      text.push_back(result.tokens[i]);
    }
    ++compared_;
  }

  SegmentResult alone_within(const std::shared_ptr<Model>& model, const std::vector<Token>& text,
                             const Known& known) {
    const std::int32_t room = known.reserve - static_cast<std::int32_t>(text.size());
    SegmentOptions options = known.options;
    options.max_new_tokens = std::min(options.max_new_tokens, room);
    SegmentResult result = alone(model, text, options, known.key);
    const bool cut = options.max_new_tokens < known.options.max_new_tokens;
    const auto most = static_cast<std::size_t>(options.max_new_tokens);
    if (cut && (result.reason == FinishReason::length || result.reason == FinishReason::ready) &&
        result.tokens.size() == most) {
      result.reason = FinishReason::context;
    }
    return result;
  }

  void check_stats() {
    const DecoderStats stats = decoder_->stats();
    CHECK_EQ(stats.running + stats.waiting + stats.queued,
             static_cast<std::int64_t>(known_.size()));
    CHECK(stats.pages_used >= 0 && stats.pages_used <= stats.pages_total);
    CHECK(stats.pages_peak >= stats.pages_used);
  }

  // Everything still in flight must come to its end when the caller lets go of what has ended.
  void drain() {
    for (int rounds = 0; !decoder_->idle(); ++rounds) {
      CHECK(rounds < 20000);
      if (step()) continue;
      const auto waiting = std::find_if(known_.begin(), known_.end(),
                                        [](const auto& entry) { return entry.second.waiting; });
      CHECK(waiting != known_.end());  // else it is stuck by itself
      release(waiting->first);
    }
    for (const auto& [id, known] : known_) CHECK(known.waiting);
    while (!known_.empty()) release(known_.begin()->first);
    CHECK_EQ(decoder_->stats().pages_used, 0);
    CHECK_EQ(decoder_->stats().waiting, 0);
  }

  std::mt19937 random_;
  bool change_weights_;
  std::shared_ptr<Model> model_;
  std::vector<std::shared_ptr<Model>> variants_;
  std::map<std::uint64_t, std::size_t> of_version_;
  std::unique_ptr<Decoder> decoder_;
  std::int64_t pages_ = 0;
  std::map<SequenceId, Known> known_;
  std::map<SequenceId, std::vector<Token>> forkable_;
  std::uint64_t next_stream_ = 0;
  std::int64_t compared_ = 0;
};

TEST(random_calls_change_no_segment) {
  std::int64_t compared = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    Driver driver(seed, false);
    driver.run(400);
    compared += driver.compared();
  }
  CHECK(compared > 1000);
}

TEST(random_calls_and_changes_of_weights_change_no_segment) {
  std::int64_t compared = 0;
  for (std::uint32_t seed = 100; seed < 120; ++seed) {
    Driver driver(seed, true);
    driver.run(400);
    compared += driver.compared();
  }
  CHECK(compared > 500);
}

}  // namespace
}  // namespace hindsearch
