#include "native/model/head.h"

#include "native/model/layer_views.h"
#include "native/model/slab.h"

namespace hindsearch {

void gather_normed(const Network& network, const float* x, const std::vector<Token>& rows,
                   float* gathered, float* hidden, float* inv_rms) {
  const auto n = static_cast<std::int64_t>(rows.size());
  const std::int64_t width = network.config.hidden;
  network.backend.embed(rows.data(), n, x, width, gathered);
  network.backend.rms_norm(rows_view(static_cast<const float*>(gathered), n, width),
                           network.weight(network.layout.final_norm()), network.config.rms_epsilon,
                           rows_view(hidden, n, width), inv_rms);
}

HeadScores head_forward(const Network& network, const float* x, const ScoredRows& scored,
                        float temperature, bool entropies) {
  HeadScores scores;
  const std::int64_t n = scored.size(), width = network.config.hidden;
  if (n == 0) return scores;
  Backend& backend = network.backend;
  float *hidden, *log_probs, *log_sums, *entropy = nullptr;
  Slab slab;
  slab.add(hidden, n * width);
  slab.add(log_probs, n);
  slab.add(log_sums, n);
  if (entropies) slab.add(entropy, n);
  slab.allocate(backend);

  gather_normed(network, x, scored.rows, hidden, hidden, nullptr);
  backend.head_log_probs(hidden, n, *network.weights.head, temperature, scored.targets.data(),
                         log_probs, log_sums, entropy);
  const auto download = [&](const float* from, std::vector<float>& to) {
    to.resize(static_cast<std::size_t>(n));
    backend.download(from, to.data(), n);
  };
  download(log_probs, scores.log_probs);
  download(log_sums, scores.log_sums);
  if (entropies) download(entropy, scores.entropies);
  return scores;
}

bool head_backward(const Network& network, const float* x, const ScoredRows& scored,
                   float temperature, const std::vector<float>& log_sums,
                   const std::vector<float>& g, float* d_x, float* gradients) {
  ScoredRows active;
  std::vector<float> active_log_sums, active_g;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] == 0) continue;
    active.rows.push_back(scored.rows[i]);
    active.targets.push_back(scored.targets[i]);
    active_log_sums.push_back(log_sums[i]);
    active_g.push_back(g[i]);
  }
  const std::int64_t n = active.size(), width = network.config.hidden;
  if (n == 0) return false;
  Backend& backend = network.backend;
  float *gathered, *hidden, *inv_rms, *d_hidden, *d_gathered, *sums, *d_log_probs;
  Slab slab;
  slab.add(gathered, n * width);
  slab.add(hidden, n * width);
  slab.add(inv_rms, n);
  slab.add(d_hidden, n * width);
  slab.add(d_gathered, n * width);
  slab.add(sums, n);
  slab.add(d_log_probs, n);
  slab.allocate(backend);

  gather_normed(network, x, active.rows, gathered, hidden, inv_rms);
  backend.upload(active_log_sums.data(), sums, n);
  backend.upload(active_g.data(), d_log_probs, n);
  backend.head_backward(hidden, n, *network.weights.head, network.weight(network.layout.head()),
                        temperature, active.targets.data(), sums, d_log_probs, d_hidden,
                        gradients + network.layout.head());
  backend.zero(d_gathered, n * width);  // rms_norm_backward adds
  backend.rms_norm_backward(rows_view(static_cast<const float*>(gathered), n, width), inv_rms,
                            network.weight(network.layout.final_norm()),
                            rows_view(static_cast<const float*>(d_hidden), n, width),
                            rows_view(d_gathered, n, width),
                            gradients + network.layout.final_norm());
  backend.embed_backward(active.rows.data(), n, d_gathered, width, d_x);
  return true;
}

}  // namespace hindsearch
