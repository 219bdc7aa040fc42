#include "native/addon/model_options.h"

#include <cfloat>
#include <cstdint>
#include <string>

#include "native/backend/temperature.h"

namespace hindsearch {
namespace {

constexpr std::int64_t kMaxInt32 = INT32_MAX;
// Numbers up to here are exact in a double.
constexpr std::int64_t kMaxSafeInteger = (std::int64_t{1} << 53) - 1;

std::int32_t read_int32(const Argument& argument, std::int64_t low) {
  return static_cast<std::int32_t>(argument.integer(low, kMaxInt32));
}

float read_float(const Argument& argument, double low, double high = FLT_MAX) {
  return static_cast<float>(argument.number(low, high));
}

StorageType read_storage_type(const Argument& argument) {
  return argument.choice<StorageType>(
      {{"f32", StorageType::f32}, {"f16", StorageType::f16}, {"bf16", StorageType::bf16}});
}

RopeScaling read_rope_scaling(const Argument& argument) {
  RopeScaling scaling;
  if (!argument.given()) return scaling;
  scaling.factor = argument["factor"].number(1, FLT_MAX);
  scaling.low_frequency_factor = argument["lowFrequencyFactor"].number(0, FLT_MAX);
  scaling.high_frequency_factor = argument["highFrequencyFactor"].number(0, FLT_MAX);
  scaling.original_positions = argument["originalPositions"].number(1, FLT_MAX);
  return scaling;
}

PolicyTerm read_policy_term(const Argument& argument) {
  PolicyTerm term;
  term.weight = read_float(argument["weight"], -FLT_MAX);
  term.clip_low = read_float(argument["clipLow"], 0);
  term.clip_high = read_float(argument["clipHigh"], 0);
  term.dual_clip = read_float(argument["dualClip"], 0);
  term.aggregation = argument["aggregation"].choice<Aggregation>(
      {{"token-mean", Aggregation::token_mean},
       {"sequence-mean-token-mean", Aggregation::sequence_mean_token_mean},
       {"sequence-sum", Aggregation::sequence_sum},
       {"fixed-length", Aggregation::fixed_length}});
  term.fixed_length = read_float(argument["fixedLength"], 0);
  return term;
}

KlTerm read_kl_term(const Argument& argument) {
  KlTerm term;
  term.weight = read_float(argument["weight"], -FLT_MAX);
  term.estimator = argument["estimator"].choice<KlEstimator>(
      {{"k1", KlEstimator::k1}, {"k2", KlEstimator::k2}, {"k3", KlEstimator::k3}});
  term.max_value = read_float(argument["maxValue"], 0);
  return term;
}

DistillTerm read_distill_term(const Argument& argument) {
  DistillTerm term;
  term.weight = read_float(argument["weight"], -FLT_MAX);
  term.clamp_low = read_float(argument["clampLow"], -FLT_MAX);
  term.clamp_high = read_float(argument["clampHigh"], -FLT_MAX);
  term.detach = argument["detach"].boolean();
  term.normalizer = argument["normalizer"].choice<DistillNormalizer>(
      {{"distill-tokens", DistillNormalizer::distill_tokens},
       {"policy-tokens", DistillNormalizer::policy_tokens},
       {"sequences", DistillNormalizer::sequences},
       {"fixed", DistillNormalizer::fixed}});
  term.fixed = read_float(argument["fixed"], 0);
  return term;
}

}  // namespace

ModelConfig read_config(const Argument& argument) {
  ModelConfig config;
  config.hidden = read_int32(argument["hidden"], 1);
  // The names of more layers than this would fill the memory before any weight does.
  config.layers = static_cast<std::int32_t>(argument["layers"].integer(1, 1 << 14));
  config.heads = read_int32(argument["heads"], 1);
  config.kv_heads = read_int32(argument["kvHeads"], 1);
  config.head_dim = read_int32(argument["headDim"], 1);
  config.intermediate = read_int32(argument["intermediate"], 1);
  config.vocabulary = read_int32(argument["vocabulary"], 1);
  config.token_limit = read_int32(argument["tokenLimit"], 1);
  config.max_positions = read_int32(argument["maxPositions"], 1);
  config.rms_epsilon = read_float(argument["rmsEpsilon"], FLT_MIN);
  config.rope_theta = argument["ropeTheta"].number(FLT_MIN, FLT_MAX);
  config.rope_scaling = read_rope_scaling(argument["ropeScaling"]);
  config.tied = argument["tied"].boolean();
  config.qkv_bias = argument["qkvBias"].boolean();
  config.qk_norm = argument["qkNorm"].boolean();
  config.validate();
  return config;
}

ComputeType read_compute(const Argument& argument) {
  return argument.choice<ComputeType>({{"f32", ComputeType::f32}, {"bf16", ComputeType::bf16}});
}

Arena read_arena(const Argument& argument) {
  return argument.choice<Arena>({{"weights", Arena::weights},
                                 {"firstMoments", Arena::first_moments},
                                 {"secondMoments", Arena::second_moments}});
}

std::vector<TensorSource> read_tensor_sources(const Argument& argument) {
  std::vector<TensorSource> sources;
  argument.each([&](const Argument& element) {
    TensorSource source;
    source.name = element["name"].string();
    source.path = element["path"].path();
    source.offset = static_cast<std::uint64_t>(element["offset"].integer(0, kMaxSafeInteger));
    source.bytes = static_cast<std::uint64_t>(element["bytes"].integer(0, kMaxSafeInteger));
    source.type = read_storage_type(element["type"]);
    element["shape"].each(
        [&](const Argument& side) { source.shape.push_back(side.integer(0, kMaxInt32)); });
    sources.push_back(std::move(source));
  });
  return sources;
}

std::vector<TensorSink> read_tensor_sinks(const Argument& argument) {
  std::vector<TensorSink> sinks;
  argument.each([&](const Argument& element) {
    sinks.push_back({element["name"].string(), read_storage_type(element["type"]),
                     read_arena(element["arena"])});
  });
  return sinks;
}

PackedSequences read_sequences(const Argument& argument) {
  PackedSequences sequences;
  sequences.tokens = argument["tokens"].int32_array();
  const std::vector<std::int32_t> offsets = argument["offsets"].int32_array();
  sequences.offsets.assign(offsets.begin(), offsets.end());
  return sequences;
}

ScoreOptions read_score_options(const Argument& argument) {
  ScoreOptions options;
  options.temperature = read_float(argument["temperature"], kMinTemperature, kMaxTemperature);
  for (const std::int32_t first : argument["first"].int32_array()) options.first.push_back(first);
  if (const Argument mask = argument["mask"]; mask.given()) options.mask = mask.uint8_array();
  options.entropy = argument["entropy"].boolean();
  options.micro_batch_tokens = argument["microBatchTokens"].integer(1, kMaxInt32);
  return options;
}

Objective read_objective(const Argument& argument) {
  Objective objective;
  objective.policy.weight = 0;
  if (const Argument term = argument["policy"]; term.given())
    objective.policy = read_policy_term(term);
  if (const Argument term = argument["kl"]; term.given()) objective.kl = read_kl_term(term);
  if (const Argument term = argument["distill"]; term.given()) {
    objective.distill = read_distill_term(term);
  }
  if (const Argument term = argument["crossEntropy"]; term.given()) {
    objective.cross_entropy.weight = read_float(term["weight"], -FLT_MAX);
  }
  const auto mask = [&](const char* name) {
    const Argument column = argument[name];
    return column.given() ? column.uint8_array() : std::vector<std::uint8_t>{};
  };
  const auto numbers = [&](const char* name) {
    const Argument column = argument[name];
    return column.given() ? column.float32_array() : std::vector<float>{};
  };
  objective.policy_mask = mask("policyMask");
  objective.distill_mask = mask("distillMask");
  objective.old_log_probs = numbers("oldLogProbs");
  objective.reference_log_probs = numbers("referenceLogProbs");
  objective.teacher_log_probs = numbers("teacherLogProbs");
  objective.advantages = numbers("advantages");
  objective.weights = numbers("weights");
  if (const Argument totals = argument["totals"]; totals.given()) {
    objective.total_policy_tokens = totals["policyTokens"].number(0, DBL_MAX);
    objective.total_policy_sequences = totals["policySequences"].number(0, DBL_MAX);
    objective.total_sequences = totals["sequences"].number(0, DBL_MAX);
    objective.total_distill_tokens = totals["distillTokens"].number(0, DBL_MAX);
    objective.total_distill_sequences = totals["distillSequences"].number(0, DBL_MAX);
    objective.total_weight = totals["weight"].number(0, DBL_MAX);
  }
  return objective;
}

TrainOptions read_train_options(const Argument& argument) {
  TrainOptions options;
  options.temperature = read_float(argument["temperature"], kMinTemperature, kMaxTemperature);
  options.checkpoint_activations = argument["checkpointActivations"].boolean();
  options.micro_batch_tokens = argument["microBatchTokens"].integer(1, kMaxInt32);
  return options;
}

OptimizerOptions read_optimizer_options(const Argument& argument) {
  OptimizerOptions options;
  options.learning_rate = read_float(argument["learningRate"], 0);
  options.beta1 = read_float(argument["beta1"], 0, 0.9999999);
  options.beta2 = read_float(argument["beta2"], 0, 0.9999999);
  options.epsilon = read_float(argument["epsilon"], 0);
  options.weight_decay = read_float(argument["weightDecay"], 0);
  options.max_gradient_norm = read_float(argument["maxGradientNorm"], 0);
  return options;
}

}  // namespace hindsearch
