// The vocabulary head, fused with softmax: logits exist only as a block of rows times a part of the
// vocabulary.
#include <algorithm>

#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/rounded_rows.h"
#include "native/backend/cpu/softmax.h"

namespace hindsearch::cpu {
namespace {

constexpr std::int64_t kRows = 96;           // of one logits tile; a multiple of every tile_rows
constexpr std::int64_t kGroup = 10 * kRows;  // rows whose chunk statistics are held together

// The backward's logits block: long enough in rows for whole blocks of the weight's sum, some MiB
// in all.
constexpr std::int64_t kBackwardRows = 1024;
constexpr std::int64_t kBackwardColumns = 2 * kVocabularyChunk;

}  // namespace

void head_log_probs(const Kernels& kernels, ComputeType compute, const Numbers& hidden,
                    std::int64_t rows, const Panels& head, float temperature, const Token* targets,
                    float* log_probs, float* log_sums, float* entropies) {
  const GemmKernels& gemm = kernels.gemm(compute);
  const std::int64_t width = head.k(), vocabulary = head.columns();
  const std::int64_t chunks = vocabulary_chunks(vocabulary);
  const float inverse_temperature = 1 / temperature;
  const auto chunk_statistics =
      entropies ? kernels.rows->chunk_statistics : kernels.rows->chunk_sum;
  auto* statistics = scratch<ChunkStatistics>(Slot::rows, std::min(kGroup, rows) * chunks);
  for (std::int64_t group = 0; group < rows; group += kGroup) {
    const std::int64_t group_rows = std::min(kGroup, rows - group);
    const std::int64_t blocks = (group_rows + kRows - 1) / kRows;
    const auto run = [&](std::int64_t task) {
      const std::int64_t chunk = task / blocks, first = task % blocks * kRows;
      const std::int64_t count = std::min(kRows, group_rows - first);
      const std::int64_t start = chunk * kVocabularyChunk;
      const std::int64_t columns = std::min(kVocabularyChunk, vocabulary - start);
      float* logits = scratch<float>(Slot::tile, count * columns);
      multiply_serial(gemm, count, {hidden.from(gemm, group + first), false},
                      head.view(start, columns), {}, logits, columns);
      for (std::int64_t r = 0; r < count; ++r) {
        const float* row = logits + r * columns;
        const std::int64_t target = targets[group + first + r] - start;
        if (target >= 0 && target < columns) {
          log_probs[group + first + r] = row[target] * inverse_temperature;
        }
        statistics[(first + r) * chunks + chunk] =
            chunk_statistics(row, columns, inverse_temperature);
      }
    };
    parallel_tasks(blocks * chunks, group_rows * vocabulary * width / 32, run);
    for (std::int64_t r = 0; r < group_rows; ++r) {
      SoftmaxSum sum;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum.add(statistics[r * chunks + chunk]);
      float& log_prob = log_probs[group + r];
      log_prob = static_cast<float>(sum.log_prob(log_prob));
      log_sums[group + r] = static_cast<float>(sum.log_sum());
      if (entropies) entropies[group + r] = static_cast<float>(sum.entropy());
    }
  }
}

void head_backward(const Kernels& kernels, ComputeType compute, const Numbers& hidden,
                   std::int64_t rows, const Panels& head, const float* weight, float temperature,
                   const Token* targets, const float* log_sums, const float* g, float* d_hidden,
                   float* d_weight) {
  const GemmKernels& gemm = kernels.gemm(compute);
  const std::int64_t width = head.k(), vocabulary = head.columns();
  const float inverse_temperature = 1 / temperature;
  for (std::int64_t first = 0; first < rows; first += kBackwardRows) {
    const std::int64_t count = std::min(kBackwardRows, rows - first);
    const Numbers block = hidden.from(gemm, first);
    const PanelView packed_hidden = pack_scratch(gemm, Slot::columns, block, count, width);
    for (std::int64_t start = 0; start < vocabulary; start += kBackwardColumns) {
      const std::int64_t columns = std::min(kBackwardColumns, vocabulary - start);
      float* d_logits = scratch<float>(Slot::tile, count * columns);
      multiply(gemm, count, {block, false}, head.view(start, columns), {}, d_logits, columns);
      // Each row's gradient at the beginning of its floats.
      const bool rounds = RoundedRows::fit(gemm, columns);
      const RoundedRows narrow(gemm, d_logits, columns, columns);
      parallel_ranges(count, columns * 4, [&](std::int64_t begin, std::int64_t end) {
        float* const apart = rounds ? scratch<float>(Slot::rows, columns) : nullptr;
        for (std::int64_t r = begin; r < end; ++r) {
          float* const logits = d_logits + r * columns;
          float* const row = rounds ? apart : logits;
          const float factor = g[first + r] * inverse_temperature;
          kernels.rows->softmax_gradient(logits, columns, inverse_temperature, log_sums[first + r],
                                         factor, row);
          const std::int64_t target = targets[first + r] - start;
          if (target >= 0 && target < columns) row[target] += factor;
          if (rounds) narrow.store(r, row);
        }
      });
      const Numbers gradients = rounds ? narrow.numbers() : Numbers{d_logits, columns};
      float* const d_part = d_weight + start * width;
      multiply(gemm, columns, {gradients, true}, packed_hidden, {d_part, width}, d_part, width);
      const PanelView packed_weight =
          pack_scratch(gemm, Slot::right, {weight + start * width, width}, columns, width);
      float* const d_block = d_hidden + first * width;
      multiply(gemm, count, {gradients, false}, packed_weight,
               start > 0 ? AddedTo{d_block, width} : AddedTo{}, d_block, width);
    }
  }
}

}  // namespace hindsearch::cpu
