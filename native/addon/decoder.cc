#include "native/addon/decoder.h"

#include <string>
#include <utility>

#include "native/addon/arguments.h"
#include "native/addon/cancellation.h"
#include "native/addon/decoder_options.h"
#include "native/addon/decoder_results.h"
#include "native/addon/model.h"
#include "native/addon/object.h"
#include "native/addon/run.h"
#include "native/core/error.h"

namespace hindsearch {
namespace {

constexpr std::int64_t kMaxInt32 = INT32_MAX;

}  // namespace

// One call of next(). Its receiver is kept alive as long as it is open.
class JsDecoder::Next final : public NextCall {
 public:
  Next(Environment& environment, JsDecoder& decoder) : NextCall(environment), decoder_(decoder) {}

 private:
  std::optional<Napi::Value> value(Napi::Env env) override {
    decoder_.session();  // disposed of while the results were on their way
    const Napi::Array results = decoder_.collect(env, results_);
    if (results.Length() == 0 && !results_.empty()) {
      // All of them were released before they were collected. Nobody else hears of a cancel()
      // between the engine's claim and here.
      if (cancelled()) throw Error(code::kAborted, "next() was aborted.");
      results_.clear();
      reopen();
      decoder_.session_->wait(std::static_pointer_cast<NextCall>(shared_from_this()));
      return std::nullopt;
    }
    return results;
  }

  JsDecoder& decoder_;
};

std::vector<napi_property_descriptor> JsDecoder::members() {
  return {method<&JsDecoder::submit>("submit"),   method<&JsDecoder::fork>("fork"),
          method<&JsDecoder::extend>("extend"),   method<&JsDecoder::cancel>("cancel"),
          method<&JsDecoder::release>("release"), method<&JsDecoder::next>("next"),
          method<&JsDecoder::stats>("stats"),     getter<&JsDecoder::bytes>("bytes"),
          method<&JsDecoder::dispose>("dispose")};
}

JsDecoder::JsDecoder(Napi::Env env, std::shared_ptr<DecoderSession> session, Token token_limit,
                     const SequenceLimits& limits)
    : session_(std::move(session)), token_limit_(token_limit), limits_(limits) {
  memory_.set(env, session_->bytes());
}

DecoderSession& JsDecoder::session() const {
  if (!session_)
    throw Error(code::kDisposed, "The decoder has been disposed of. Create another one.");
  return *session_;
}

JsDecoder::Entry JsDecoder::find(const Argument& argument) {
  const Entry entry = sequences_.find(argument.integer(1, INT64_C(1) << 53));
  if (entry == sequences_.end()) argument.refuse("a sequence of this decoder that is not released");
  return entry;
}

// (prompt, options, key, reserve) => number
Napi::Value JsDecoder::submit(const Napi::CallbackInfo& info) {
  const Argument prompt(info[0], "prompt");
  std::vector<Token> tokens = prompt.int32_array();
  if (tokens.empty()) {
    throw Error(code::kInvalidArgument,
                "submit: prompt has no token; there is nothing to go on from.");
  }
  check_tokens("submit", tokens, token_limit_);
  SegmentOptions options = read_segment_options(Argument(info[1], "options"));
  check_segment("submit", options, token_limit_);
  const RandomKey key = read_random_key(Argument(info[2], "key"));
  const std::int64_t wanted = Argument(info[3], "reserve").integer(0, kMaxInt32);
  const auto size = static_cast<std::int64_t>(tokens.size());
  const std::int64_t reserve = wanted == 0 ? size + options.max_new_tokens : wanted;
  check_reserve("submit", size, options.max_new_tokens, reserve, limits_);

  DecoderSession& session = this->session();
  const std::int64_t number = ++last_number_;
  session.post(
      [number, tokens = std::move(tokens), options = std::move(options), key, reserve](
          DecoderSession& session, Decoder& decoder) {
        session.bind(number,
                     decoder.submit(tokens, options, key, static_cast<std::int32_t>(reserve)));
      },
      {number});
  sequences_[number] = Sequence{true, size, size, reserve};
  return Napi::Number::New(info.Env(), static_cast<double>(number));
}

// (sequence, keys, options, reserve) => number[]
Napi::Value JsDecoder::fork(const Napi::CallbackInfo& info) {
  const Argument sequence(info[0], "sequence");
  const std::vector<RandomKey> keys = read_random_keys(Argument(info[1], "keys"));
  SegmentOptions options = read_segment_options(Argument(info[2], "options"));
  check_segment("fork", options, token_limit_);
  const std::int64_t wanted = Argument(info[3], "reserve").integer(0, kMaxInt32);
  DecoderSession& session = this->session();
  const Entry entry = find(sequence);
  const std::int64_t parent = entry->first;
  const Sequence& known = entry->second;
  const std::int64_t boundary = known.boundary;
  const std::int64_t reserve = wanted == 0 ? known.reserve : wanted;
  check_reserve("fork", boundary, options.max_new_tokens, reserve, limits_);

  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < keys.size(); ++i) numbers.push_back(++last_number_);
  session.post(
      [parent, numbers, keys, options = std::move(options), reserve](DecoderSession& session,
                                                                     Decoder& decoder) {
        const std::vector<SequenceId> ids =
            decoder.fork(session.id(parent), keys, options, static_cast<std::int32_t>(reserve));
        for (std::size_t i = 0; i < ids.size(); ++i) session.bind(numbers[i], ids[i]);
      },
      numbers);
  Napi::Array array = Napi::Array::New(info.Env(), numbers.size());
  for (std::uint32_t i = 0; i < numbers.size(); ++i) {
    sequences_[numbers[i]] = Sequence{true, boundary, boundary, reserve};
    array.Set(i, static_cast<double>(numbers[i]));
  }
  return array;
}

// (sequence, tokens, options) => void
Napi::Value JsDecoder::extend(const Napi::CallbackInfo& info) {
  const Argument argument(info[0], "sequence");
  std::vector<Token> tokens = Argument(info[1], "tokens").int32_array();
  check_tokens("extend", tokens, token_limit_);
  SegmentOptions options = read_segment_options(Argument(info[2], "options"));
  check_segment("extend", options, token_limit_);
  DecoderSession& session = this->session();
  const Entry entry = find(argument);
  const std::int64_t number = entry->first;
  Sequence& sequence = entry->second;
  if (sequence.decoding) {
    argument.refuse("a sequence whose last segment has been collected with next()");
  }
  const std::int64_t size = sequence.size + static_cast<std::int64_t>(tokens.size());
  if (size > sequence.reserve) {
    throw Error(code::kContextFull, "Sequence " + std::to_string(number) + " would hold " +
                                        std::to_string(size) +
                                        " tokens; it was submitted with room for " +
                                        std::to_string(sequence.reserve) + ". Shorten the text.");
  }
  session.post([number, tokens = std::move(tokens), options = std::move(options)](
                   DecoderSession& session,
                   Decoder& decoder) { decoder.extend(session.id(number), tokens, options); },
               {number});
  sequence = Sequence{true, size, size, sequence.reserve};
  return info.Env().Undefined();
}

// (sequence) => void
Napi::Value JsDecoder::cancel(const Napi::CallbackInfo& info) {
  DecoderSession& session = this->session();
  const Entry entry = find(Argument(info[0], "sequence"));
  if (entry->second.decoding) {
    session.post([number = entry->first](DecoderSession& session,
                                         Decoder& decoder) { decoder.cancel(session.id(number)); },
                 {});
  }
  return info.Env().Undefined();
}

// (sequence) => void
Napi::Value JsDecoder::release(const Napi::CallbackInfo& info) {
  DecoderSession& session = this->session();
  const Entry entry = find(Argument(info[0], "sequence"));
  session.post(
      [number = entry->first](DecoderSession& session, Decoder& decoder) {
        decoder.release(session.id(number));
        session.unbind(number);
      },
      {});
  sequences_.erase(entry);
  return info.Env().Undefined();
}

// (cancellation?) => Promise<SegmentResult[]>
Napi::Value JsDecoder::next(const Napi::CallbackInfo& info) {
  Cancellation* cancellation = read_cancellation(info[0]);
  DecoderSession& session = this->session();
  Environment& environment = Environment::of(info.Env());
  if (const auto open = next_.lock(); open && environment.is_open(open)) {
    throw Error(code::kInvalidArgument,
                "next() must not be called before its last promise is settled.");
  }
  const auto call = std::make_shared<Next>(environment, *this);
  next_ = call;
  Napi::Promise promise = environment.open(call, info.This());
  session.wait(call);
  if (cancellation != nullptr) cancellation->attach(environment, call);
  return promise;
}

Napi::Array JsDecoder::collect(Napi::Env env, const std::vector<SegmentResult>& results) {
  memory_.set(env, session().bytes());
  Napi::Array array = Napi::Array::New(env);
  for (const SegmentResult& result : results) {
    const Entry entry = sequences_.find(result.sequence);
    if (entry == sequences_.end()) continue;
    entry->second.decoding = false;
    entry->second.size += static_cast<std::int64_t>(result.tokens.size());
    array.Set(array.Length(), segment_to_js(env, result));
  }
  return array;
}

// () => DecoderStats
Napi::Value JsDecoder::stats(const Napi::CallbackInfo& info) {
  return stats_to_js(info.Env(), session().stats());
}

Napi::Value JsDecoder::bytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), session_ ? static_cast<double>(session_->bytes()) : 0);
}

void JsDecoder::release_all(Napi::Env env) noexcept {
  if (!session_) return;
  memory_.set(env, 0);
  session_->close();
  session_.reset();
  sequences_.clear();
}

// () => void
Napi::Value JsDecoder::dispose(const Napi::CallbackInfo& info) {
  if (!session_) return info.Env().Undefined();
  if (const std::shared_ptr<NextCall> call = session_->stop_waiting(); call && call->claim()) {
    call->fail(std::make_exception_ptr(
        Error(code::kDisposed, "The decoder was disposed of while next() was waiting.")));
    Environment::of(info.Env()).settle(call);
  }
  release_all(info.Env());
  return info.Env().Undefined();
}

Napi::Value create_decoder(const Napi::CallbackInfo& info) {
  const DecoderOptions options = read_decoder_options(Argument(info[1], "options"));
  TokenBytes tokens = read_token_bytes(Argument(info[2], "tokenBytes"));
  // Last, since a getter among the options may have disposed of the model.
  const std::shared_ptr<SharedModel> shared = unwrap<JsModel>(Argument(info[0], "model")).shared();
  const ModelConfig& config = shared->model().config();
  const std::int64_t pages = (options.cache_tokens + kPageTokens - 1) / kPageTokens;
  const SequenceLimits limits{config.max_positions, pages * kPageTokens};
  return run_on_engine(
      info, nullptr,
      [shared, options, tokens = std::move(tokens)](const CancelFlag*) mutable {
        return std::make_shared<DecoderSession>(*shared, options, std::move(tokens));
      },
      [token_limit = config.token_limit, limits](
          Napi::Env env, std::shared_ptr<DecoderSession> session) -> Napi::Value {
        const Napi::Object decoder =
            wrap(env, std::make_unique<JsDecoder>(env, session, token_limit, limits));
        // Behind what fails in an environment that is ending: the engine keeps the session
        // until it is closed.
        engine().add_worker(std::move(session));
        return decoder;
      });
}

}  // namespace hindsearch
