#include <algorithm>
#include <span>

#include "native/backend/cpu/kv_layout.h"
#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/rounded_rows.h"

namespace hindsearch::cpu {
namespace {

constexpr int kMaxRows = 8;

// Some query rows of one sequence that share a key/value head.
struct Part {
  const SequenceRows* sequence;
  std::int32_t head;
  std::int32_t first;
  std::int32_t count;
};

// Long sequences are cut so that threads finish together; short ones are one part a head. In the
// calling thread's Slot::parts.
std::span<const Part> split(std::span<const SequenceRows> sequences, std::int32_t heads) {
  constexpr std::int32_t kRows = 64;
  std::int64_t count = 0;
  for (const SequenceRows& s : sequences)
    count += std::int64_t{heads} * ((s.rows + kRows - 1) / kRows);
  Part* const parts = scratch<Part>(Slot::parts, count);
  Part* next = parts;
  for (const SequenceRows& sequence : sequences) {
    for (std::int32_t head = 0; head < heads; ++head) {
      for (std::int32_t first = 0; first < sequence.rows; first += kRows) {
        *next++ = {&sequence, head, first, std::min(kRows, sequence.rows - first)};
      }
    }
  }
  return {parts, static_cast<std::size_t>(count)};
}

std::int64_t total_scores(std::span<const SequenceRows> sequences) {
  std::int64_t total = 0;
  for (const SequenceRows& s : sequences)
    total += std::int64_t{s.rows} * (s.past + (s.rows + 1) / 2);
  return total;
}

}  // namespace

void write_kv(const ConstHeadsView& keys, const ConstHeadsView& values,
              std::span<const SequenceRows> sequences, const KvPages& pages, std::int32_t layer) {
  const std::int64_t width = pages.head_dim;
  const auto count = static_cast<std::int64_t>(sequences.size());
  const std::int64_t rows = keys.rows / std::max<std::int64_t>(1, count);
  parallel_ranges(
      count, (rows + 1) * pages.heads * width * 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const SequenceRows& s = sequences[static_cast<std::size_t>(i)];
          for (std::int32_t r = 0; r < s.rows; ++r) {
            const std::int32_t page = s.pages[(s.past + r) / kPageTokens];
            const std::int32_t lane = (s.past + r) % kPageTokens;
            for (std::int32_t head = 0; head < pages.heads; ++head) {
              const float* key = keys.data + (s.first_row + r) * keys.row_stride + head * width;
              const float* value =
                  values.data + (s.first_row + r) * values.row_stride + head * width;
              float* to = page_keys(pages, page, layer, head) + lane;
              for (std::int64_t d = 0; d < width; ++d) to[d * kPageTokens] = key[d];
              std::copy_n(value, width, page_values(pages, page, layer, head) + lane * width);
            }
          }
        }
      });
}

Operand attention(const Kernels& kernels, ComputeType compute, const ConstHeadsView& queries,
                  std::span<const SequenceRows> sequences, const KvPages& pages, std::int32_t layer,
                  float scale, float* out, float* statistics) {
  const RowKernels& row_kernels = *kernels.rows;
  const GemmKernels& gemm = kernels.gemm(compute);
  const std::int64_t heads = queries.heads, width = queries.width;
  const RoundedRows rounded(gemm, out, heads * width);
  const bool rounds = !statistics && gemm.convert_rows && width % gemm.unit == 0;
  const std::int64_t group = heads / pages.heads;
  const std::span<const Part> parts = split(sequences, pages.heads);
  const auto run = [&](std::int64_t index) {
    const Part& part = parts[static_cast<std::size_t>(index)];
    const SequenceRows& sequence = *part.sequence;
    const std::int32_t longest = sequence.past + part.first + part.count;
    const std::int32_t page_count = (longest + kPageTokens - 1) / kPageTokens;
    const float** keys = scratch<const float*>(Slot::columns, 2 * page_count);
    const float** values = keys + page_count;
    for (std::int32_t p = 0; p < page_count; ++p) {
      keys[p] = page_keys(pages, sequence.pages[p], layer, part.head);
      values[p] = page_values(pages, sequence.pages[p], layer, part.head);
    }
    const float* query[kMaxRows];
    float* result[kMaxRows];
    float* statistic[kMaxRows];
    float unwanted[kMaxRows][2];
    std::int32_t lengths[kMaxRows];
    AttentionRows rows{};
    rows.queries = query;
    rows.out = result;
    rows.statistics = statistic;
    rows.lengths = lengths;
    rows.keys = keys;
    rows.values = values;
    rows.width = width;
    rows.scale = scale;
    rows.scratch = scratch<float>(Slot::attention,
                                  row_kernels.attention_rows * (width + longest + 2 * kPageTokens));
    float* const results =
        rounds ? scratch<float>(Slot::rows, row_kernels.attention_rows * width) : nullptr;
    std::int64_t place[kMaxRows][2];  // row and head
    const auto flush = [&] {
      row_kernels.attention(rows);
      for (int i = 0; rounds && i < rows.count; ++i)
        rounded.store(place[i][0], place[i][1] * width, width, result[i]);
      rows.count = 0;
    };
    for (std::int32_t r = part.first; r < part.first + part.count; ++r) {
      const std::int64_t row = sequence.first_row + r;
      for (std::int64_t head = part.head * group; head < (part.head + 1) * group; ++head) {
        query[rows.count] = queries.data + row * queries.row_stride + head * width;
        result[rows.count] =
            rounds ? results + rows.count * width : out + (row * heads + head) * width;
        place[rows.count][0] = row;
        place[rows.count][1] = head;
        statistic[rows.count] =
            statistics ? statistics + (row * heads + head) * 2 : unwanted[rows.count];
        lengths[rows.count] = sequence.past + r + 1;
        if (++rows.count == row_kernels.attention_rows) flush();
      }
    }
    if (rows.count > 0) flush();
  };
  const auto tasks = static_cast<std::int64_t>(parts.size());
  parallel_tasks(tasks, total_scores(sequences) * heads * width / 8, run);
  return rounds ? rounded.operand() : as_operand(out, heads * width);
}

}  // namespace hindsearch::cpu
