// Gradient of causal attention by tiles of query rows and keys (the scheme of FlashAttention, Dao
// et al. 2022): probabilities are computed again from the forward's maximum and sum, so memory
// grows with T, not T x T. With p = softmax(scale q k), o = p v:
//   dv_j = sum_i p_ij do_i;  ds_ij = p_ij (do_i . v_j - do_i . o_i);
//   dq_i = scale sum_j ds_ij k_j;  dk_j = scale sum_i ds_ij q_i.
// One thread takes one key/value head of one sequence; sums run over key blocks, query blocks and
// heads in ascending order.
#include <algorithm>

#include "native/backend/cpu/kv_layout.h"
#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {
namespace {

constexpr std::int64_t kKeys = 48;  // a multiple of the page and of every tile's columns
constexpr std::int64_t kRows = 32;

std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

// C[rows, columns] (+)= A B through the f32 tiles; columns is a multiple of the vector, B and C
// have room for them.
void small_multiply(const GemmKernels& f32, std::int64_t rows, std::int64_t columns, std::int64_t k,
                    const float* a, std::int64_t a_stride, bool transposed, const float* b,
                    std::int64_t b_stride, float* c, std::int64_t c_stride, bool accumulate) {
  Tile tile{};
  tile.steps = k;
  tile.a_stride = a_stride;
  tile.b_stride = b_stride;
  tile.base_stride = tile.c_stride = c_stride;
  for (std::int64_t j = 0; j < columns; j += std::int64_t{f32.tile_vectors} * f32.width) {
    const std::int64_t vectors =
        std::min<std::int64_t>(f32.tile_vectors, (columns - j) / f32.width);
    tile.b = b + j;
    for (std::int64_t i = 0; i < rows; i += f32.tile_rows) {
      const std::int64_t count = std::min<std::int64_t>(f32.tile_rows, rows - i);
      tile.a = transposed ? a + i : a + i * a_stride;
      tile.c = c + i * c_stride + j;
      tile.base = accumulate ? tile.c : nullptr;
      (transposed ? f32.steps[count - 1][vectors - 1] : f32.rows[count - 1][vectors - 1][0])(tile);
    }
  }
}

// The working set of one sequence and key/value head, all rows padded to whole vectors with zeros.
struct Workspace {
  std::int64_t tokens, width, padded_width, padded_tokens;
  float *key_panels, *value_panels;    // [T / kKeys][D][kKeys]
  float* key_rows;                     // [T][D]
  float *d_keys, *d_values;            // [T][D]
  float *queries, *d_out, *d_queries;  // [T][D], of one head
  float* deltas;                       // [T]
  float *scores, *d_scores;            // [kRows][kKeys]

  Workspace(std::int64_t t, std::int64_t d)
      : tokens(t),
        width(d),
        padded_width(round_up(d, kPageTokens)),
        padded_tokens(round_up(t, kKeys)) {
    const std::int64_t rows = padded_tokens * padded_width, panels = padded_tokens * width;
    const std::int64_t tile = kRows * kKeys;
    float* next = scratch<float>(Slot::attention, 6 * rows + 2 * panels + padded_tokens + 2 * tile);
    const auto take = [&](std::int64_t n) {
      float* taken = next;
      next += n;
      return taken;
    };
    for (float** x : {&key_rows, &d_keys, &d_values, &queries, &d_out, &d_queries}) *x = take(rows);
    for (float** x : {&key_panels, &value_panels}) *x = take(panels);
    for (float** x : {&scores, &d_scores}) *x = take(tile);
    deltas = take(padded_tokens);
  }

  void zero_rows(float* rows) const { std::fill(rows, rows + padded_tokens * padded_width, 0.0f); }

  // Page by page; keys that do not exist become zeros, whatever the page holds there.
  void load_keys(const SequenceRows& sequence, const KvPages& pages, std::int32_t layer,
                 std::int32_t head) {
    std::fill(key_panels, key_panels + 2 * padded_tokens * width, 0.0f);  // and value_panels
    zero_rows(key_rows);
    for (std::int64_t first = 0; first < tokens; first += kPageTokens) {
      const std::int32_t page = sequence.pages[first / kPageTokens];
      const float* keys = page_keys(pages, page, layer, head);
      const float* values = page_values(pages, page, layer, head);
      const std::int64_t count = std::min<std::int64_t>(kPageTokens, tokens - first);
      const std::int64_t panel = first / kKeys * kKeys * width + first % kKeys;
      for (std::int64_t d = 0; d < width; ++d) {
        std::copy_n(keys + d * kPageTokens, count, key_panels + panel + d * kKeys);
        for (std::int64_t lane = 0; lane < count; ++lane) {
          key_rows[(first + lane) * padded_width + d] = keys[d * kPageTokens + lane];
          value_panels[panel + d * kKeys + lane] = values[lane * width + d];
        }
      }
    }
  }

  void load_rows(const float* from, std::int64_t stride, float* to) const {
    for (std::int64_t i = 0; i < tokens; ++i) {
      std::copy_n(from + i * stride, width, to + i * padded_width);
      std::fill(to + i * padded_width + width, to + (i + 1) * padded_width, 0.0f);
    }
  }

  void store_rows(const float* from, float scale, float* to, std::int64_t stride) const {
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t d = 0; d < width; ++d)
        to[i * stride + d] = from[i * padded_width + d] * scale;
    }
  }
};

// Adds one head's part: rows of w.queries against all keys they see.
void head_gradient(const Kernels& kernels, const Workspace& w, float scale, const float* statistics,
                   std::int64_t statistics_stride) {
  const GemmKernels& f32 = *kernels.f32;
  const std::int64_t padded = w.padded_width;
  for (std::int64_t j = 0; j < w.tokens; j += kKeys) {
    const std::int64_t keys = std::min(kKeys, w.tokens - j);
    for (std::int64_t i = j / kRows * kRows; i < w.tokens; i += kRows) {
      const std::int64_t rows = std::min(kRows, w.tokens - i);
      // On the diagonal the last keys of the block may be behind every row.
      const std::int64_t seen = std::min(keys, i + rows - j);
      if (seen <= 0) continue;
      const std::int64_t columns = round_up(seen, kPageTokens);
      const float* queries = w.queries + i * padded;
      const float* d_out = w.d_out + i * padded;
      small_multiply(f32, rows, columns, w.width, queries, padded, false,
                     w.key_panels + j * w.width, kKeys, w.scores, kKeys, false);
      small_multiply(f32, rows, columns, w.width, d_out, padded, false,
                     w.value_panels + j * w.width, kKeys, w.d_scores, kKeys, false);
      AttentionGradientTile tile{};
      tile.scores = w.scores;
      tile.d_scores = w.d_scores;
      tile.rows = rows;
      tile.columns = columns;
      tile.stride = kKeys;
      tile.seen = i - j + 1;
      tile.scale = scale;
      tile.statistics = statistics + i * statistics_stride;
      tile.statistics_stride = statistics_stride;
      tile.deltas = w.deltas + i;
      kernels.rows->attention_gradient(tile);
      small_multiply(f32, rows, padded, seen, w.d_scores, kKeys, false, w.key_rows + j * padded,
                     padded, w.d_queries + i * padded, padded, true);
      small_multiply(f32, seen, padded, rows, w.d_scores, kKeys, true, queries, padded,
                     w.d_keys + j * padded, padded, true);
      small_multiply(f32, seen, padded, rows, w.scores, kKeys, true, d_out, padded,
                     w.d_values + j * padded, padded, true);
    }
  }
}

}  // namespace

void attention_backward(const Kernels& kernels, const ConstHeadsView& queries,
                        std::span<const SequenceRows> sequences, const KvPages& pages,
                        std::int32_t layer, float scale, const float* out, const float* statistics,
                        const float* d_out, const HeadsView& d_queries, const HeadsView& d_keys,
                        const HeadsView& d_values) {
  const std::int64_t heads = queries.heads, width = queries.width;
  const std::int64_t group = heads / pages.heads, row_width = heads * width;
  const auto run = [&](std::int64_t index) {
    const SequenceRows& sequence = sequences[static_cast<std::size_t>(index / pages.heads)];
    const auto kv_head = static_cast<std::int32_t>(index % pages.heads);
    if (sequence.rows == 0) return;
    const std::int64_t row = sequence.first_row;
    Workspace w(sequence.rows, width);
    w.load_keys(sequence, pages, layer, kv_head);
    w.zero_rows(w.d_keys);
    w.zero_rows(w.d_values);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const std::int64_t column = head * width;
      w.load_rows(queries.data + row * queries.row_stride + column, queries.row_stride, w.queries);
      w.load_rows(d_out + row * row_width + column, row_width, w.d_out);
      w.zero_rows(w.d_queries);
      for (std::int64_t i = 0; i < w.tokens; ++i) {
        const std::int64_t offset = (row + i) * row_width + column;
        w.deltas[i] = kernels.rows->dot(out + offset, d_out + offset, width);
      }
      head_gradient(kernels, w, scale, statistics + (row * heads + head) * 2, heads * 2);
      w.store_rows(w.d_queries, scale, d_queries.data + row * d_queries.row_stride + column,
                   d_queries.row_stride);
    }
    w.store_rows(w.d_keys, scale, d_keys.data + row * d_keys.row_stride + kv_head * width,
                 d_keys.row_stride);
    w.store_rows(w.d_values, 1, d_values.data + row * d_values.row_stride + kv_head * width,
                 d_values.row_stride);
  };
  std::int64_t work = 0;
  for (const SequenceRows& s : sequences) work += std::int64_t{s.rows} * s.rows;
  const auto tasks = static_cast<std::int64_t>(sequences.size()) * pages.heads;
  parallel_tasks(tasks, work * heads * width / 6, run);
}

}  // namespace hindsearch::cpu
