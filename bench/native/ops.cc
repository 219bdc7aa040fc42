// Every op of one forward and backward pass over a batch of short sequences, as the demo trains
// them: time and share.
//
//   ops_bench [threads] [f32|bf16]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/native/measure.h"
#include "native/backend/backend.h"
#include "native/core/random.h"

namespace hindsearch {
namespace {

constexpr std::int64_t kWidth = 96, kLayers = 3, kHeads = 3, kHeadWidth = 32, kInner = 192,
                       kVocabulary = 220;

std::vector<float> noise(std::int64_t count, std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(uniform(seed, i, 0) - 0.5);
  return out;
}

void run(ComputeType compute) {
  const auto backend = make_backend(compute);
  std::vector<SequenceRows> sequences;
  std::vector<std::vector<std::int32_t>> pages;
  std::int64_t rows = 0;
  std::int32_t page = 0;
  for (std::int32_t length = 60; length <= 150; length += 2) {
    auto& own = pages.emplace_back();
    for (std::int32_t i = 0; i < length; i += kPageTokens) own.push_back(page++);
    sequences.push_back({rows, length, 0, own.data()});
    rows += length;
  }
  KvPages cache = backend->kv_pages(1, kHeads, kHeadWidth);
  std::vector<float> cache_memory(static_cast<std::size_t>(page * cache.page_floats));
  cache.data = cache_memory.data();

  const std::int64_t qkv_width = 3 * kHeads * kHeadWidth;
  auto x = noise(rows * kWidth, 1), y = x, d = noise(rows * kWidth, 2), d_x = d;
  auto qkv = noise(rows * qkv_width, 3), d_qkv = qkv;
  auto gate_up = noise(rows * 2 * kInner, 4), d_gate_up = gate_up, inner = noise(rows * kInner, 5);
  auto weight = noise(2 * kInner * kWidth, 6), d_weight = weight;
  std::vector<float> norm(kWidth, 1), d_norm(kWidth), inv(static_cast<std::size_t>(rows));
  std::vector<float> statistics(static_cast<std::size_t>(rows * kHeads * 2)), out(x.size());
  std::vector<Token> tokens(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < tokens.size(); ++r)
    tokens[r] = static_cast<Token>(r * 7 % kVocabulary);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  for (const SequenceRows& s : sequences) {
    for (std::int32_t i = 0; i < s.rows; ++i)
      positions[static_cast<std::size_t>(s.first_row + i)] = i;
  }
  const auto index = backend->index(false);
  index->assign(tokens, positions, sequences);
  const auto cosines = noise(150 * kHeadWidth / 2, 7);
  std::vector<float> log_probs(static_cast<std::size_t>(rows)),
      log_sums = log_probs, g(static_cast<std::size_t>(rows), 1);

  struct Timed {
    const char* name;
    double times, milliseconds;
  };
  std::vector<Timed> results;
  const auto time = [&](const char* name, double times, const std::function<void()>& body) {
    results.push_back({name, times, 1e3 * fastest_seconds(body, 0.15)});
  };
  const auto view = [&](std::vector<float>& data, std::int64_t first) {
    return HeadsView{data.data() + first * kHeadWidth, rows, kHeads, kHeadWidth, qkv_width};
  };
  const HeadsView xs{x.data(), rows, 1, kWidth, kWidth}, ds{d.data(), rows, 1, kWidth, kWidth},
      dxs{d_x.data(), rows, 1, kWidth, kWidth};
  struct Linear {
    const char* name;
    std::int64_t n, k;
    std::vector<float>*in, *result;
  };
  for (const Linear& l :
       {Linear{"qkv", qkv_width, kWidth, &x, &qkv}, Linear{"o", kWidth, kWidth, &x, &y},
        Linear{"gate_up", 2 * kInner, kWidth, &x, &gate_up},
        Linear{"down", kWidth, kInner, &inner, &y}}) {
    const auto packed = backend->pack(weight.data(), l.n, l.k);
    static std::vector<std::string> names;
    names.reserve(100);
    const auto name = [&](const char* what) {
      return names.emplace_back(std::string(l.name) + what).c_str();
    };
    std::vector<float> rounded(l.in->size()), ones(static_cast<std::size_t>(l.k), 1.0f);
    const Operand in = backend->rms_norm_operand(l.in->data(), rows, l.k, ones.data(), 1e-6f,
                                                 rounded.data(), nullptr);
    const Operand d_result = as_operand(l.result->data(), l.n);
    time(name(" forward"), kLayers,
         [&] { backend->linear(in, rows, *packed, {}, l.result->data(), nullptr); });
    auto d_in = *l.in;
    time(name(" input gradient"), kLayers, [&] {
      backend->linear_backward_input(d_result, rows, *packed, weight.data(), d_in.data());
    });
    time(name(" weight gradient"), kLayers, [&] {
      backend->linear_backward_weight(d_result, in, rows, l.n, l.k, d_weight.data(), nullptr);
    });
  }
  time("rms_norm", 2 * kLayers + 1, [&] {
    backend->rms_norm_operand(x.data(), rows, kWidth, norm.data(), 1e-6f, y.data(), inv.data());
  });
  time("rms_norm backward", 2 * kLayers + 1,
       [&] { backend->rms_norm_backward(xs, inv.data(), norm.data(), ds, dxs, d_norm.data()); });
  time("rope q", 4 * kLayers,
       [&] { backend->rope(view(qkv, 0), *index, cosines.data(), cosines.data(), false); });
  qkv = noise(rows * qkv_width, 3);
  time("silu_gate", kLayers,
       [&] { backend->silu_gate(gate_up.data(), rows, kInner, inner.data()); });
  time("silu_gate backward", kLayers,
       [&] { backend->silu_gate_backward(d_gate_up.data(), inner.data(), rows, kInner); });
  time("write_kv", kLayers,
       [&] { backend->write_kv(view(qkv, kHeads), view(qkv, 2 * kHeads), *index, cache, 0); });
  time("attention", kLayers, [&] {
    backend->attention(view(qkv, 0), *index, cache, 0, 0.17f, out.data(), statistics.data());
  });
  time("attention backward", kLayers, [&] {
    backend->attention_backward(view(qkv, 0), *index, cache, 0, 0.17f, out.data(),
                                statistics.data(), d.data(), view(d_qkv, 0), view(d_qkv, kHeads),
                                view(d_qkv, 2 * kHeads));
  });
  time("embed", 1, [&] { backend->embed(*index, weight.data(), kWidth, x.data()); });
  time("embed backward", 1,
       [&] { backend->embed_backward(*index, x.data(), kWidth, d_weight.data()); });
  const auto head = backend->pack(weight.data(), kVocabulary, kWidth);
  time("head_log_probs", 1, [&] {
    backend->head_log_probs(as_operand(x.data(), kWidth), rows, *head, 1, tokens.data(),
                            log_probs.data(), log_sums.data(), nullptr);
  });
  time("head_backward", 1, [&] {
    backend->head_backward(as_operand(x.data(), kWidth), rows, *head, weight.data(), 1,
                           tokens.data(), log_sums.data(), g.data(), d_x.data(), d_weight.data());
  });
  time("add", 2 * kLayers, [&] { backend->add(x.data(), y.data(), rows * kWidth); });

  double total = 0;
  for (const Timed& t : results) total += t.times * t.milliseconds;
  std::printf("%s %s, %d thread(s), %d rows: %.1f ms forward and backward\n", instruction_set(),
              compute == ComputeType::f32 ? "f32" : "bf16", thread_count(), static_cast<int>(rows),
              total);
  for (const Timed& t : results) {
    std::printf("  %-24s %3.0f x %8.3f ms  %5.1f %%\n", t.name, t.times, t.milliseconds,
                100 * t.times * t.milliseconds / total);
  }
}

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  using namespace hindsearch;
  set_thread_count(argc > 1 ? std::atoi(argv[1]) : 1);
  const std::string type = argc > 2 ? argv[2] : "";
  if (type != "bf16") run(ComputeType::f32);
  if (type != "f32") run(ComputeType::bf16);
}
