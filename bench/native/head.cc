// Head and loss over the vocabulary of Qwen2.5-0.5B, forward and backward, beside the plain product
// of hidden states and head, as one JSON line. Log-probs take one product of that size, and their
// gradient three: logits again, since they are never held, and the gradients of both operands.
//
//   head_bench <threads> <f32|bf16> [tokens, a multiple of 1024]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/native/measure.h"
#include "bench/native/peak.h"
#include "native/backend/backend.h"
#include "native/core/thread_pool.h"

namespace hindsearch {
namespace {

constexpr std::int64_t kVocabulary = 151936, kWidth = 896;
// Rows of one call of a plain product, whose output is then 622 MB and not 2.5 GB.
constexpr std::int64_t kPlainRows = 1024;

// Bytes of a line like "VmRSS:  123 kB" of the process; 0 where the system has no such file.
double process_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    double kibibytes = 0;
    if (word == name + ":" && file >> kibibytes) return 1024 * kibibytes;
  }
  return 0;
}

// Lets the peak of resident memory start again from what is resident now.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << '5'; }

void run(ComputeType compute, std::int64_t tokens) {
  const auto backend = make_backend(compute);
  const auto vector = [](std::int64_t count, float value) {
    return std::vector<float>(static_cast<std::size_t>(count), value);
  };
  auto weight = vector(kVocabulary * kWidth, 0), d_weight = weight;
  for (std::size_t i = 0; i < weight.size(); ++i)
    weight[i] = static_cast<float>(i * 2654435761u % 1024) / 16384.0f - 0.03f;
  const auto head = backend->pack(weight.data(), kVocabulary, kWidth);
  auto states = vector(tokens * kWidth, 0.5f), hidden = states,
       d_hidden = vector(tokens * kWidth, 0);
  const auto norm = vector(kWidth, 0.5f);
  const Operand normed = backend->rms_norm_operand(states.data(), tokens, kWidth, norm.data(),
                                                   1e-6f, hidden.data(), nullptr);
  auto log_probs = vector(tokens, 0), log_sums = log_probs, g = vector(tokens, -1e-3f);
  std::vector<Token> targets(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < targets.size(); ++i)
    targets[i] = static_cast<Token>(i * 7919 % kVocabulary);

  const auto seconds = [](const std::function<void()>& body) {
    return time_calls([&](int) { body(); }, 0, 1).fast;
  };
  reset_peak();
  const double before = process_bytes("VmRSS");
  const double forward = seconds([&] {
    backend->head_log_probs(normed, tokens, *head, 1, targets.data(), log_probs.data(),
                            log_sums.data(), nullptr);
  });
  const double backward = seconds([&] {
    backend->head_backward(normed, tokens, *head, weight.data(), 1, targets.data(), log_sums.data(),
                           g.data(), d_hidden.data(), d_weight.data());
  });
  const double extra = process_bytes("VmHWM") - before;

  auto logits = vector(kPlainRows * kVocabulary, 0);
  const double product = seconds([&] {
    for (std::int64_t first = 0; first < tokens; first += kPlainRows) {
      const Operand rows{normed.data + first * normed.stride, normed.stride, normed.rounded};
      backend->linear(rows, kPlainRows, *head, {}, logits.data(), nullptr);
    }
  });
  std::printf(
      R"({"forward": %.5g, "backward": %.5g, "extraBytes": %.6g, "product": %.5g, "flop": %.6g, )"
      R"("peak": %.5g})"
      "\n",
      forward, backward, extra, product, 2.0 * static_cast<double>(tokens * kVocabulary * kWidth),
      register_peak(compute));
}

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  using namespace hindsearch;
  if (argc < 3) return 2;
  set_thread_count(std::atoi(argv[1]));
  run(std::string(argv[2]) == "f32" ? ComputeType::f32 : ComputeType::bf16,
      argc > 3 ? std::atoll(argv[3]) : 4096);
}
