#include "native/test/golden_columns.h"

#include <algorithm>
#include <cmath>

namespace hindsearch::testing {
namespace {

using Columns = GoldenColumns;

// Per sequence: sum of f over its policy tokens, on every token of it.
Column sequence_sums(const Columns& c, const std::function<double(std::size_t)>& f) {
  Column column(c.tokens());
  for (std::size_t b = 0; b + 1 < c.offsets.size(); ++b) {
    double sum = 0;
    const auto begin = static_cast<std::size_t>(c.offsets[b]);
    const auto end = static_cast<std::size_t>(c.offsets[b + 1]);
    for (std::size_t t = begin; t < end; ++t) sum += c.response[t] ? f(t) : 0;
    for (std::size_t t = begin; t < end; ++t) column[t] = static_cast<float>(sum);
  }
  return column;
}

double old_over_rollout(const Columns& c, std::size_t t) {
  return double{c.old_log_probs[t]} - c.rollout[t];
}

}  // namespace

double GoldenColumns::non_empty_sequences() const {
  double sequences = 0;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    sequences +=
        std::count(response.begin() + offsets[b], response.begin() + offsets[b + 1], 1) > 0;
  }
  return sequences;
}

double count(const Mask& mask) {
  return static_cast<double>(std::count(mask.begin(), mask.end(), 1));
}

Column fill(const Columns& c, const std::function<double(std::size_t)>& f) {
  Column column(c.tokens());
  for (std::size_t t = 0; t < column.size(); ++t) column[t] = static_cast<float>(f(t));
  return column;
}

Column mask_column(const Columns& c) {
  return fill(c, [&](std::size_t t) { return c.response[t]; });
}

Column sequence_mean_weights(const Columns& c) {
  const Column lengths = sequence_sums(c, [](std::size_t) { return 1; });
  return fill(c, [&](std::size_t t) { return c.response[t] ? 1 / lengths[t] : 0; });
}

Column all_but_first(const Columns& c) {
  Column column(c.tokens(), 1);
  for (std::size_t b = 0; b + 1 < c.offsets.size(); ++b) {
    column[static_cast<std::size_t>(c.offsets[b])] = 0;
  }
  return column;
}

// a = teacher - rollout, weighted by the share of |a| that is still to come in its sequence.
Column importance_weighted_opd(const Columns& c) {
  const auto gap = [&](std::size_t t) {
    return c.distill[t] ? double{c.teacher[t]} - c.rollout[t] : 0;
  };
  const Column totals = sequence_sums(c, [&](std::size_t t) { return std::abs(gap(t)); });
  Column column(c.tokens());
  for (std::size_t b = 0; b + 1 < c.offsets.size(); ++b) {
    double before = 0;
    for (auto t = static_cast<std::size_t>(c.offsets[b]);
         t < static_cast<std::size_t>(c.offsets[b + 1]); ++t) {
      if (!c.distill[t]) continue;
      column[t] = static_cast<float>((2 - before / totals[t]) * gap(t));
      before += std::abs(gap(t));
    }
  }
  return column;
}

Column truncated_importance(const Columns& c) {
  return fill(c, [&](std::size_t t) {
    return c.advantage[t] * std::min(std::exp(old_over_rollout(c, t)), 2.0);
  });
}

Column batch_normalised_importance(const Columns& c) {
  double sum = 0;
  for (std::size_t t = 0; t < c.tokens(); ++t) {
    if (c.response[t]) sum += std::min(std::exp(old_over_rollout(c, t)), 2.0);
  }
  Column column = truncated_importance(c);
  for (float& a : column) a = static_cast<float>(a * count(c.response) / sum);
  return column;
}

Column sequence_importance(const Columns& c, bool mask_above) {
  const Column sums = sequence_sums(c, [&](std::size_t t) { return old_over_rollout(c, t); });
  return fill(c, [&](std::size_t t) {
    const double w = std::exp(double{sums[t]});
    return c.advantage[t] * (w <= 2 ? w : mask_above ? 0 : 2);
  });
}

Column icepop(const Columns& c) {
  return fill(c, [&](std::size_t t) {
    const double w = std::exp(old_over_rollout(c, t));
    return w >= 0.5 && w <= 2 ? c.advantage[t] * w : 0;
  });
}

Column off_policy_masked(const Columns& c) {
  const Column lengths = sequence_sums(c, [](std::size_t) { return 1; });
  const Column gaps =
      sequence_sums(c, [&](std::size_t t) { return double{c.old_log_probs[t]} - c.student[t]; });
  return fill(c, [&](std::size_t t) {
    return c.advantage[t] < 0 && gaps[t] > c.off_policy_threshold * lengths[t] ? 0 : c.advantage[t];
  });
}

Column plus_teacher_gap(const Columns& c, double scale, double coefficient, double clamp) {
  return fill(c, [&](std::size_t t) {
    const double gap = c.distill[t] ? double{c.teacher[t]} - c.old_log_probs[t] : 0;
    return scale * c.advantage[t] + coefficient * std::clamp(gap, -clamp, clamp);
  });
}

Column current_teacher_gap(const Columns& c, double clamp) {
  return fill(c, [&](std::size_t t) {
    return c.distill[t] ? std::clamp(double{c.teacher[t]} - c.student[t], -clamp, clamp) : 0;
  });
}

}  // namespace hindsearch::testing
