// The whole loop on the device: decode, score, forward and backward, step, and what snapshots keep.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "native/test/decoder_fixture.h"
#include "native/test/random_model.h"
#include "native/test/rote_task.h"

namespace hindsearch {
namespace {

using namespace hindsearch::testing;

// Rounded to bf16 as a weight matrix is: to nearest even.
float to_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
}

ScoreResult score_of(Model& model, const PackedSequences& packed) {
  return model.score(packed, {.first = std::vector<std::int64_t>(packed.offsets.size() - 1, 1)});
}

// What was drawn by recorded passes over cached keys is what the trainer computes in one pass, within
// the rounding of the compute type.
TEST(rollout_log_probs_are_the_trainers) {
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    const auto model = tiny_model(compute);
    Decoder decoder = decoder_for(model);
    // Batches of every padded size as sequences end.
    std::map<SequenceId, std::vector<Token>> prompts;
    for (std::int32_t i = 0; i < 11; ++i) {
      const auto prompt = prompt_of(5 + 7 * i, i);
      prompts[decoder.submit(prompt, segment(6 + 3 * i), {9, static_cast<std::uint64_t>(i)},
                             200)] = prompt;
    }
    double largest = 0;
    for (const auto& [id, result] : run_all_of(decoder)) {
      CHECK(result.reason == FinishReason::length);
      const std::vector<Token>& prompt = prompts.at(id);
      const ScoreResult scored = score_of(*model, pack({joined(prompt, result.tokens)}));
      for (std::size_t t = 0; t < result.tokens.size(); ++t) {
        const double error =
            std::abs(double{result.log_probs[t]} - scored.log_probs[prompt.size() + t]);
        largest = std::max(largest, std::isnan(error) ? INFINITY : error);
      }
    }
    // bf16: one-row attention keeps its probabilities in f32, that of many rows rounds them.
    CHECK(largest < (compute == ComputeType::f32 ? 2e-5 : 0.1));
  }
}

TEST(training_lowers_the_loss_and_snapshots_keep_their_weights) {
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    for (const ModelConfig& config : small_configs()) {
      auto model = random_model(config, compute);
      const RoteTask task;
      const auto snapshot = model->snapshot();
      const std::vector<float> before = all_weights(*snapshot);
      const ScoreResult scores = score_of(*snapshot, task.packed);
      const std::size_t shared_bytes = snapshot->bytes();

      const double first = model->forward_backward(task.packed, task.objective, {}).loss;
      double last = first;
      for (int step = 0; step < 8; ++step) {
        CHECK(!model->step(fast_options()).skipped);
        last = model->forward_backward(task.packed, task.objective, {}).loss;
      }
      CHECK(last < 0.7 * first);

      // The matrices of the snapshot are in packed form alone by now, and score as they did.
      const ScoreResult again = score_of(*snapshot, task.packed);
      CHECK(std::memcmp(again.log_probs.data(), scores.log_probs.data(),
                        scores.log_probs.size() * sizeof(float)) == 0);
      if (compute == ComputeType::bf16) CHECK(snapshot->bytes() < shared_bytes);
      const std::vector<float> kept = all_weights(*snapshot);
      std::size_t i = 0;
      for (const Parameter& parameter : snapshot->layout().parameters()) {
        const bool matrix = parameter.offset >= snapshot->layout().unpacked_size();
        for (std::int64_t n = 0; n < parameter.size; ++n, ++i) {
          const bool rounded = matrix && compute == ComputeType::bf16;
          CHECK_EQ(kept[i], rounded ? to_bf16(before[i]) : before[i]);
        }
      }
    }
  }
}

// Decoding goes on over a change of the weights: nothing recorded before is played.
TEST(decoding_follows_the_weights) {
  const auto model = tiny_model(ComputeType::bf16);
  const auto frozen = model->snapshot();
  Decoder decoder = decoder_for(model);
  const auto prompt = prompt_of(20);
  const auto decoded = [&](std::uint64_t stream) {
    const SequenceId id = decoder.submit(prompt, segment(12), {5, stream}, 40);
    SegmentResult result = run_all_of(decoder).at(id);
    decoder.release(id);
    return result;
  };
  decoded(1);
  PackedSequences packed = pack({prompt});
  Objective objective;
  objective.policy.weight = 0;
  objective.cross_entropy.weight = 1;
  objective.weights.assign(packed.tokens.size(), 1);
  objective.weights.front() = 0;
  model->forward_backward(packed, objective, {});
  model->step(fast_options());
  const SegmentResult after = decoded(2);
  const ScoreResult scored = score_of(*model, pack({joined(prompt, after.tokens)}));
  const ScoreResult old = score_of(*frozen, pack({joined(prompt, after.tokens)}));
  double to_new = 0, to_old = 0;
  for (std::size_t t = 0; t < after.tokens.size(); ++t) {
    to_new += std::abs(after.log_probs[t] - scored.log_probs[prompt.size() + t]);
    to_old += std::abs(after.log_probs[t] - old.log_probs[prompt.size() + t]);
  }
  CHECK(to_new < 0.1 * to_old);
}

TEST(the_device_is_counted_and_given_back) {
  const std::size_t before = memory_use().bytes;
  {
    const auto model = tiny_model(ComputeType::bf16);
    CHECK(memory_use().bytes >=
          before + static_cast<std::size_t>(model->layout().size()) * sizeof(float));
  }
  CHECK(memory_use().bytes - memory_use().kept <= before);
}

}  // namespace
}  // namespace hindsearch
