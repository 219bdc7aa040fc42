// Forward against shared/golden/models, with the tolerances of shared/golden/README.md.
#include <algorithm>
#include <cmath>

#include "native/test/bf16_exceptions.h"
#include "native/test/cached_run.h"
#include "native/test/checkpoint.h"
#include "native/test/shared.h"

namespace hindsearch {
namespace {

using testing::CachedRun;
using testing::GoldenArrays;
using testing::Json;

constexpr const char* kModels[] = {"qwen2_tied", "qwen2_untied_sharded", "qwen3_tied_bf16",
                                   "llama3_untied"};

struct Errors {
  double max = 0, rms = 0;
};
Errors compare(const std::vector<float>& actual, const std::vector<float>& expected) {
  CHECK_EQ(actual.size(), expected.size());
  Errors errors;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(double{actual[i]} - expected[i]);
    errors.max = std::max(errors.max, std::isnan(error) ? INFINITY : error);
    errors.rms += error * error / static_cast<double>(actual.size());
  }
  errors.rms = std::sqrt(errors.rms);
  return errors;
}

// Every log-prob and entropy of a batch of all sequences; entropy of the last position needs one
// more token, so a token is appended whose log-prob is not looked at.
ScoreResult score_all(Model& model, const Json& sequences, PackedSequences& packed) {
  std::vector<std::vector<Token>> extended;
  for (const Json& sequence : sequences.items()) {
    extended.push_back(sequence["token_ids"].numbers<Token>());
    extended.back().push_back(0);
  }
  packed = testing::pack(extended);
  ScoreOptions options;
  options.first.assign(extended.size(), 1);
  return model.score(packed, options);
}

void check_sequence(const std::string& model, const Json& sequence, const GoldenArrays& arrays,
                    const ScoreResult& scores, std::int64_t offset,
                    const std::vector<float>& logits, bool bf16) {
  const Json& observed = sequence["observed_error"];
  const auto length = static_cast<std::int64_t>(sequence["length"].number());
  const Errors logit_errors = compare(logits, arrays[sequence["logits"].string()]);
  const std::vector<float> log_probs(scores.log_probs.begin() + offset + 1,
                                     scores.log_probs.begin() + offset + length);
  const std::vector<float> entropies(scores.entropies.begin() + offset + 1,
                                     scores.entropies.begin() + offset + 1 + length);
  const Errors log_prob_errors = compare(log_probs, arrays[sequence["logprobs"].string()]);
  const Errors entropy_errors = compare(entropies, arrays[sequence["entropy"].string()]);
  if (bf16) {
    CHECK_NEAR(logit_errors.rms, 0, 2 * observed["peer_bf16_logits_rms"].number());
    CHECK_NEAR(logit_errors.max, 0, 3 * observed["peer_bf16_logits_max_abs"].number());
    const double limit = 3 * observed["peer_bf16_logprob_max_abs"].number();
    const std::string& id = sequence["name"].string();
    CHECK_NEAR(log_prob_errors.max, 0, testing::bf16_allowance(model, id, "log-probs", limit));
    CHECK_NEAR(entropy_errors.max, 0, testing::bf16_allowance(model, id, "entropies", limit));
  } else {
    CHECK_NEAR(logit_errors.max, 0, 2e-4);
    CHECK_NEAR(log_prob_errors.max, 0, 2e-4);
    CHECK_NEAR(entropy_errors.max, 0, 2e-4);
  }
}

Token argmax(const float* logits, std::int64_t n) {
  return static_cast<Token>(std::max_element(logits, logits + n) - logits);
}

// 16 greedy tokens after each sequence, all sequences decoded together.
void check_greedy(Model& model, const Json& sequences, bool bf16) {
  const auto count = static_cast<std::int32_t>(sequences.size());
  const std::int64_t vocabulary = model.config().token_limit;
  CachedRun run(model, count, 160);
  std::vector<std::int32_t> all;
  std::vector<std::vector<Token>> next;
  for (std::int32_t b = 0; b < count; ++b) {
    all.push_back(b);
    next.push_back(sequences[static_cast<std::size_t>(b)]["token_ids"].numbers<Token>());
  }
  std::vector<bool> comparable(next.size(), true);
  for (std::size_t step = 0; step < 16; ++step) {
    const std::vector<float> logits = run.append(all, next);
    std::int64_t row = 0;
    for (std::size_t b = 0; b < next.size(); ++b) {
      const Json& sequence = sequences[b];
      row += static_cast<std::int64_t>(next[b].size());
      const Token token = argmax(logits.data() + (row - 1) * vocabulary, vocabulary);
      next[b] = {token};
      const double error = sequence["observed_error"]["peer_bf16_logits_max_abs"].number();
      if (bf16 && sequence["greedy_gaps"][step].number() <= 2 * error) comparable[b] = false;
      if (comparable[b]) CHECK_EQ(token, static_cast<Token>(sequence["greedy_16"][step].number()));
    }
  }
}

void check_models(const std::string& shared, ComputeType compute) {
  const bool bf16 = compute == ComputeType::bf16;
  for (const char* name : kModels) {
    const std::string folder = shared + "/golden/models/" + name;
    const Json cases = Json::load(folder + "/cases.json");
    const GoldenArrays arrays(folder, cases);
    const auto model = testing::load_model(folder, compute);
    PackedSequences packed;
    const ScoreResult scores = score_all(*model, cases["sequences"], packed);
    for (std::size_t b = 0; b < cases["sequences"].size(); ++b) {
      const Json& sequence = cases["sequences"][b];
      const std::vector<float> logits =
          model->logits(testing::pack({sequence["token_ids"].numbers<Token>()}));
      check_sequence(name, sequence, arrays, scores, packed.offsets[b], logits, bf16);
    }
    check_greedy(*model, cases["sequences"], bf16);
  }
}

}  // namespace

SHARED_TEST(golden_models_f32) { check_models(shared, ComputeType::f32); }
SHARED_TEST(golden_models_bf16) { check_models(shared, ComputeType::bf16); }

}  // namespace hindsearch
