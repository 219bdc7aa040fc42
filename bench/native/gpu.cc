// What the engine does with a model of a real size and random weights: prompts, decoding, training.
// One JSON object a line. Runs on whichever backend it was linked with; scripts/gpu-check.sh calls
// it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bench/native/measure.h"
#include "native/backend/backend.h"
#include "native/core/random.h"
#include "native/model/model.h"
#include "native/rollout/decoder.h"

namespace hindsearch {
namespace {

double now() { return clock_seconds(CLOCK_MONOTONIC); }

// Sizes of Qwen2.5 (config.json of Qwen/Qwen2.5-0.5B and -3B), and one that any test can afford.
ModelConfig config_of(const std::string& name) {
  ModelConfig c;
  c.tied = c.qkv_bias = true;
  c.rope_theta = 1e6;
  c.max_positions = 32768;
  if (name == "0.5b") {
    c.hidden = 896, c.layers = 24, c.heads = 14, c.kv_heads = 2, c.head_dim = 64;
    c.intermediate = 4864, c.vocabulary = 151936;
  } else if (name == "3b") {
    c.hidden = 2048, c.layers = 36, c.heads = 16, c.kv_heads = 2, c.head_dim = 128;
    c.intermediate = 11008, c.vocabulary = 151936;
  } else if (name == "small") {
    c.hidden = 64, c.layers = 2, c.heads = 4, c.kv_heads = 2, c.head_dim = 16;
    c.intermediate = 96, c.vocabulary = 300;
  } else {
    std::fprintf(stderr, "gpu_bench: unknown model %s; there are 0.5b, 3b and small\n",
                 name.c_str());
    std::exit(2);
  }
  c.token_limit = c.vocabulary;
  return c;
}

// Parameters that take part in matrix products; a tied embedding counts once, for the head.
double matrix_parameters(const ModelConfig& c) {
  const double hidden = c.hidden, query = double{1} * c.heads * c.head_dim,
               key = double{1} * c.kv_heads * c.head_dim;
  return c.layers * (hidden * (2 * query + 2 * key) + 3 * hidden * c.intermediate) +
         double{1} * c.token_limit * hidden;
}

std::vector<Token> tokens_of(std::int64_t count, const ModelConfig& config, std::uint64_t seed) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<Token>(uniform(seed, i, 0) * config.token_limit);
  }
  return tokens;
}

// Until the device has done what was queued: a decoder that only takes in text waits for nothing.
void wait(Backend& backend) {
  const auto one = backend.allocate(1);
  float number;
  backend.download(one->data(), &number, 1);
}

// Prompts of `context` tokens of their own, then new tokens of all sequences together.
void decode(const std::shared_ptr<Model>& model, const std::string& name, std::int32_t batch,
            std::int32_t context, std::int32_t fresh) {
  const ModelConfig& config = model->config();
  TokenBytes bytes;
  bytes.offsets.assign(static_cast<std::size_t>(config.token_limit) + 1, 0);
  const std::int32_t reserve = context + fresh + 1;
  Decoder decoder(model, {std::int64_t{batch} * (reserve + kPageTokens), batch, 8192}, bytes);
  std::vector<SequenceId> ids;
  SegmentOptions take_in;
  for (std::int32_t b = 0; b < batch; ++b) {
    const auto stream = static_cast<std::uint64_t>(b);
    ids.push_back(
        decoder.submit(tokens_of(context, config, stream + 1), take_in, {7, stream}, reserve));
  }
  std::vector<SegmentResult> finished;
  wait(model->backend());
  double start = now();
  while (decoder.step(finished)) {
  }
  wait(model->backend());
  const double prompt_seconds = now() - start;

  SegmentOptions generate;
  generate.max_new_tokens = fresh;
  for (const SequenceId id : ids) decoder.extend(id, {1}, generate);
  finished.clear();
  // The first steps record what the later ones play, and are not counted.
  constexpr int kWarmup = 4;
  for (int step = 0; step < kWarmup; ++step) decoder.step(finished);
  const std::int64_t before = decoder.stats().generated_tokens;
  start = now();
  while (decoder.step(finished)) {
  }
  const double seconds = now() - start;
  const std::int64_t generated = decoder.stats().generated_tokens - before;
  for (const SegmentResult& result : finished) {
    if (result.reason == FinishReason::failed) {
      std::fprintf(stderr, "gpu_bench: %s\n", result.error.c_str());
      std::exit(1);
    }
  }
  std::printf(
      "{\"work\": \"decode\", \"model\": \"%s\", \"batch\": %d, \"context\": %d, \"new\": %d, "
      "\"tokensPerSecond\": %.1f, \"promptTokensPerSecond\": %.1f, \"peakBytes\": %zu}\n",
      name.c_str(), batch, context, fresh, static_cast<double>(generated) / seconds,
      static_cast<double>(batch) * context / prompt_seconds, memory_use().peak);
  std::fflush(stdout);
}

// Steps of forward, backward, clipping and AdamW over `batch` sequences of `length` tokens.
void train(Model& model, const std::string& name, std::int32_t batch, std::int32_t length,
           bool checkpoint, int steps) {
  const ModelConfig& config = model.config();
  PackedSequences packed;
  packed.offsets = {0};
  Objective objective;
  objective.policy.weight = 0;
  objective.cross_entropy.weight = 1;
  for (std::int32_t b = 0; b < batch; ++b) {
    for (const Token token : tokens_of(length, config, static_cast<std::uint64_t>(b) + 1)) {
      objective.weights.push_back(
          packed.offsets.back() == static_cast<std::int64_t>(packed.tokens.size()) ? 0 : 1);
      packed.tokens.push_back(token);
    }
    packed.offsets.push_back(static_cast<std::int64_t>(packed.tokens.size()));
  }
  TrainOptions options;
  options.checkpoint_activations = checkpoint;
  OptimizerOptions optimizer;
  optimizer.learning_rate = 1e-6f;
  double seconds = 0;
  for (int step = 0; step <= steps; ++step) {
    const double start = now();
    model.forward_backward(packed, objective, options);
    const OptimizerResult result = model.step(optimizer);
    if (result.skipped) {
      std::fprintf(stderr, "gpu_bench: the gradient's norm is not finite\n");
      std::exit(1);
    }
    if (step > 0) seconds += now() - start;  // the first allocates
  }
  const double tokens = static_cast<double>(packed.tokens.size()) * steps;
  // 2 flop a parameter forward and 4 backward; causal attention sees half of the keys: 2 products
  // forward, 4 backward.
  const double attention = 6.0 * config.layers * config.heads * config.head_dim * length;
  const double flops = 6 * matrix_parameters(config) + attention;
  std::printf(
      "{\"work\": \"train\", \"model\": \"%s\", \"batch\": %d, \"length\": %d, \"checkpoint\": %s, "
      "\"tokensPerSecond\": %.1f, \"teraflopsPerSecond\": %.1f, \"peakBytes\": %zu}\n",
      name.c_str(), batch, length, checkpoint ? "true" : "false", tokens / seconds,
      tokens / seconds * flops * 1e-12, memory_use().peak);
  std::fflush(stdout);
}

struct Work {
  std::vector<std::int32_t> decode;
  std::vector<std::pair<std::int32_t, std::int32_t>> train;
  std::int32_t context = 1024, fresh = 64;
  int steps = 3;
  bool checkpoint = false;
};

// "1,64" and "8x2048,64x512".
Work parse(int argc, char** argv) {
  Work work;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const char* value = argv[i + 1];
    if (option == "--context") {
      work.context = std::atoi(value);
    } else if (option == "--new") {
      work.fresh = std::atoi(value);
    } else if (option == "--steps") {
      work.steps = std::atoi(value);
    } else if (option == "--checkpoint") {
      work.checkpoint = std::strcmp(value, "true") == 0;
    } else if (option == "--decode" || option == "--train") {
      for (const char* at = value; *at != '\0';) {
        char* end = nullptr;
        const auto first = static_cast<std::int32_t>(std::strtol(at, &end, 10));
        if (option == "--decode") {
          work.decode.push_back(first);
        } else {
          work.train.emplace_back(first, static_cast<std::int32_t>(std::strtol(end + 1, &end, 10)));
        }
        at = *end == ',' ? end + 1 : end;
      }
    } else {
      std::fprintf(stderr, "gpu_bench: unknown option %s\n", option.c_str());
      std::exit(2);
    }
  }
  return work;
}

void run(const std::string& name, const Work& work) {
  const auto model = Model::initialize(config_of(name), ComputeType::bf16, 1);
  std::printf("{\"work\": \"device\", \"description\": \"%s\"}\n",
              device_info().description.c_str());
  for (const std::int32_t batch : work.decode) {
    decode(model, name, batch, work.context, work.fresh);
  }
  for (const auto& [batch, length] : work.train) {
    train(*model, name, batch, length, work.checkpoint, work.steps);
  }
}

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: gpu_bench <0.5b|3b|small> [--decode 1,64] [--context 1024] [--new 64] "
                 "[--train 8x2048] [--steps 3] [--checkpoint true|false]\n");
    return 2;
  }
  try {
    hindsearch::run(argv[1], hindsearch::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
