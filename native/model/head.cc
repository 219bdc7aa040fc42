#include "native/model/head.h"

#include <algorithm>

#include "native/model/layer_views.h"
#include "native/model/slab.h"

namespace hindsearch {
namespace {

// Rows between two looks at the cancel flag: with a large vocabulary the head takes longer than any
// layer. The CPU's head works through about as many at a time itself, so nothing gets slower.
constexpr std::int64_t kRows = 960;

}  // namespace

Operand final_norm(const Network& network, const float* x, std::int64_t n, float* hidden,
                   float* inv_rms) {
  return network.backend.rms_norm_operand(x, n, network.config.hidden,
                                          network.weight(network.layout.final_norm()),
                                          network.config.rms_epsilon, hidden, inv_rms);
}

Operand gather_normed(const Network& network, const float* x, std::span<const std::int32_t> rows,
                      float* gathered, float* hidden, float* inv_rms) {
  const auto n = static_cast<std::int64_t>(rows.size());
  network.backend.gather(rows.data(), n, x, network.config.hidden, gathered);
  return final_norm(network, gathered, n, hidden, inv_rms);
}

HeadScores head_forward(const Network& network, const float* x, const ScoredRows& scored,
                        float temperature, bool entropies, const char* call,
                        const CancelFlag* cancel) {
  const std::int64_t n = scored.size(), most = std::min(n, kRows);
  HeadScores scores;
  scores.log_probs.resize(static_cast<std::size_t>(n));
  scores.log_sums.resize(static_cast<std::size_t>(n));
  if (entropies) scores.entropies.resize(static_cast<std::size_t>(n));
  Backend& backend = network.backend;
  float *gathered, *hidden, *log_probs, *log_sums, *entropy = nullptr;
  Slab slab;
  slab.add(gathered, most * network.config.hidden);
  slab.add(hidden, most * network.config.hidden);
  slab.add(log_probs, most);
  slab.add(log_sums, most);
  if (entropies) slab.add(entropy, most);
  slab.allocate(backend);

  for (std::int64_t first = 0; first < n; first += kRows) {
    check_cancelled(cancel, call);
    const std::int64_t count = std::min(kRows, n - first);
    const auto at = static_cast<std::size_t>(first);
    const auto rows = std::span(scored.rows).subspan(at, static_cast<std::size_t>(count));
    const Operand normed = gather_normed(network, x, rows, gathered, hidden, nullptr);
    backend.head_log_probs(normed, count, *network.weights.head, temperature,
                           scored.targets.data() + first, log_probs, log_sums, entropy);
    backend.download(log_probs, scores.log_probs.data() + first, count);
    backend.download(log_sums, scores.log_sums.data() + first, count);
    if (entropies) backend.download(entropy, scores.entropies.data() + first, count);
  }
  return scores;
}

bool head_backward(const Network& network, const float* x, const ScoredRows& scored,
                   float temperature, const std::vector<float>& log_sums,
                   const std::vector<float>& g, float* d_x, float* gradients, const char* call,
                   const CancelFlag* cancel) {
  ScoredRows active;
  std::vector<float> active_log_sums, active_g;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] == 0) continue;
    active.rows.push_back(scored.rows[i]);
    active.targets.push_back(scored.targets[i]);
    active_log_sums.push_back(log_sums[i]);
    active_g.push_back(g[i]);
  }
  const std::int64_t n = active.size(), most = std::min(n, kRows), width = network.config.hidden;
  if (n == 0) return false;
  Backend& backend = network.backend;
  float *gathered, *hidden, *inv_rms, *d_hidden, *d_gathered, *sums, *d_log_probs;
  Slab slab;
  slab.add(gathered, most * width);
  slab.add(hidden, most * width);
  slab.add(inv_rms, most);
  slab.add(d_hidden, most * width);
  slab.add(d_gathered, most * width);
  slab.add(sums, most);
  slab.add(d_log_probs, most);
  slab.allocate(backend);

  for (std::int64_t first = 0; first < n; first += kRows) {
    check_cancelled(cancel, call);
    const std::int64_t count = std::min(kRows, n - first);
    const auto rows =
        std::span(active.rows)
            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    const Operand normed = gather_normed(network, x, rows, gathered, hidden, inv_rms);
    backend.upload(active_log_sums.data() + first, sums, count);
    backend.upload(active_g.data() + first, d_log_probs, count);
    backend.head_backward(normed, count, *network.weights.head,
                          network.weight(network.layout.head()), temperature,
                          active.targets.data() + first, sums, d_log_probs, d_hidden,
                          gradients + network.layout.head());
    backend.zero(d_gathered, count * width);  // rms_norm_backward adds
    backend.rms_norm_backward(rows_view(static_cast<const float*>(gathered), count, width), inv_rms,
                              network.weight(network.layout.final_norm()),
                              rows_view(static_cast<const float*>(d_hidden), count, width),
                              rows_view(d_gathered, count, width),
                              gradients + network.layout.final_norm());
    backend.scatter_add(rows.data(), count, d_gathered, width, d_x);
  }
  return true;
}

}  // namespace hindsearch
