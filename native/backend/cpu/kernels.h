// What each instruction set provides: plain functions over ranges, single-threaded, without
// allocation. The op files split the work and call them through these tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "native/backend/backend.h"

namespace hindsearch::cpu {

// One tile of a matrix product: C[rows, columns] = base + A[rows, k] B[k, columns], for a number of
// rows and columns fixed by the kernel. Every element is one chain over k in ascending order that
// starts from zero; base is added last. `base` may be c itself, or null (nothing is added).
struct Tile {
  std::int64_t steps;     // k in units of the kernel (1, or 2 for bf16 pairs)
  const void* a;          // in the kernel's operand type
  std::int64_t a_stride;  // operand units from row to row, or from step to step (step-major)
  const void* b;
  std::int64_t b_stride;  // operand units from step to step
  const float* base;
  std::int64_t base_stride;  // 0 for a bias, shared by all rows
  float* c;
  std::int64_t c_stride;
  // Weights needed soon, and for how many steps to fetch them.
  const char* prefetch;
  std::int64_t prefetch_steps;
};
using TileKernel = void (*)(const Tile&);

inline constexpr int kMaxTileRows = 8;
inline constexpr int kMaxTileVectors = 3;

// The family of tiles for one operand type, and the packing that feeds it.
struct GemmKernels {
  int tile_rows;         // of the largest tile
  int tile_vectors;      // its columns, in vectors
  int width;             // floats in a vector
  int unit;              // k elements a step: 2 for bf16, else 1
  int left_bytes;        // of one k element of A
  int right_bytes;       // of one k element of B
  std::int64_t k_block;  // elements summed in one chain; blocks are added in order
  // A row-major. Last index: cache lines to prefetch a step (0: one, 1: tile_vectors).
  TileKernel rows[kMaxTileRows][kMaxTileVectors][2];
  // A step-major: the rows of one step lie side by side.
  TileKernel steps[kMaxTileRows][kMaxTileVectors];

  // A[rows, k] row-major to the operand type, rows `to_stride` elements apart, k padded with a zero
  // to a whole step. Null where f32 is read in place.
  void (*convert_rows)(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t k,
                       void* to, std::int64_t to_stride);
  // A given as [k, rows] to [rows / tile_rows][step][tile_rows][unit]; missing rows are left unset.
  void (*pack_left)(const void* from, std::int64_t stride, std::int64_t k, std::int64_t rows,
                    void* to);
  // B given as [k, columns] to one panel [step][padded columns][unit], padding zero.
  void (*pack_right)(const void* from, std::int64_t stride, std::int64_t k, std::int64_t columns,
                     std::int64_t padded, void* to);
  // Both read floats. The same of numbers in A's operand type, as convert_rows writes them:
  void (*pack_left_rounded)(const void* from, std::int64_t stride, std::int64_t k,
                            std::int64_t rows, void* to);
  void (*pack_right_rounded)(const void* from, std::int64_t stride, std::int64_t k,
                             std::int64_t columns, std::int64_t padded, void* to);
  // B given as [columns, k], otherwise as pack_right.
  void (*pack_right_transposed)(const float* from, std::int64_t stride, std::int64_t k,
                                std::int64_t columns, std::int64_t padded, void* to);
};

// Softmax over one vocabulary chunk: z = logit * inverse_temperature, largest = max z (-inf when
// nothing is larger), sum = sum of e^(z - largest), weighted = sum of e^(z - largest) (z -
// largest).
struct ChunkStatistics {
  float largest;
  float sum;
  float weighted;
};

// Floats (or tokens) that a kernel which picks values out of a row may write behind the last.
inline constexpr std::int64_t kPickSlack = 16;

// Values of a row split at two bounds: the weight of those below `low`, and how many lie in [low,
// high].
struct Bracketed {
  double below;
  std::int64_t inside;
};

struct AttentionRows {
  int count;                    // 1..attention_rows
  const float* const* queries;  // [count], D floats each
  float* const* out;            // [count], D floats each
  float* const* statistics;     // [count], 2 floats each
  const std::int32_t* lengths;  // [count] keys seen, not descending
  const float* const* keys;     // the sequence's pages of this head
  const float* const* values;
  std::int64_t width;  // D
  float scale;
  float* scratch;  // attention_rows * (D + longest length + 2 pages) floats
};

// A block of query rows against a block of keys, for the gradient of attention.
struct AttentionGradientTile {
  float* scores;    // [rows, stride] in: q . k; out: probabilities, 0 where a key is not seen
  float* d_scores;  // [rows, stride] in: d_out . v; out: p (d_out . v - delta), 0 likewise
  std::int64_t rows;
  std::int64_t columns;  // a multiple of 16
  std::int64_t stride;
  std::int64_t seen;  // keys of this block that row 0 sees; each further row sees one more
  float scale;
  const float* statistics;  // (maximum, sum) of row i at i * statistics_stride
  std::int64_t statistics_stride;
  const float* deltas;  // [rows] d_out . out
};

struct RowKernels {
  int attention_rows;  // most rows of one call

  void (*add)(const float* x, float* y, std::int64_t n);
  // y += x over rows of a matrix, all into one row: column sums in row order.
  void (*add_rows)(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                   float* y);
  double (*sum_of_squares)(const float* x, std::int64_t n);
  void (*adamw)(float* weights, const float* gradients, float* first, float* second, std::int64_t n,
                const AdamWStep& step, float corrected_rate, float corrected_root);

  void (*rms_norm)(const ConstHeadsView& x, const float* weight, float epsilon, const HeadsView& y,
                   float* inv_rms, std::int64_t begin, std::int64_t end);
  // Adds the rows' share of the weight's gradient to d_weight.
  void (*rms_norm_backward)(const ConstHeadsView& x, const float* inv_rms, const float* weight,
                            const ConstHeadsView& d_y, const HeadsView& d_x, float* d_weight,
                            std::int64_t begin, std::int64_t end);
  void (*rope)(const HeadsView& x, const std::int32_t* positions, const float* cosines,
               const float* sines, bool inverse, std::int64_t begin, std::int64_t end);
  // Of one row. The backward's results may be where its inputs are.
  void (*silu_gate)(const float* gate_up, std::int64_t width, float* out);
  void (*silu_gate_backward)(const float* gate_up, const float* d_out, std::int64_t width,
                             float* d_gate_up, float* out);

  void (*attention)(const AttentionRows& rows);
  void (*attention_gradient)(const AttentionGradientTile& tile);
  float (*dot)(const float* x, const float* y, std::int64_t n);

  // out = e^(logit * inverse_temperature - shift)
  void (*exponentials)(const float* logits, std::int64_t n, float inverse_temperature, float shift,
                       float* out);
  ChunkStatistics (*chunk_statistics)(const float* logits, std::int64_t n,
                                      float inverse_temperature);
  // The same, bit for bit, with `weighted` left at 0, for where nobody asks for an entropy.
  ChunkStatistics (*chunk_sum)(const float* logits, std::int64_t n, float inverse_temperature);
  // out = -factor * e^(logit * inverse_temperature - log_sum); out may be the logits.
  void (*softmax_gradient)(const float* logits, std::int64_t n, float inverse_temperature,
                           float log_sum, float factor, float* out);

  // --- For the filters of Sampling. Nothing is NaN but where it says so. ---
  // The largest, NaN when any is NaN.
  float (*row_maximum)(const float* logits, std::int64_t n);
  // out = e^((logit - top) * inverse_temperature), and their sum.
  double (*masses)(const float* logits, std::int64_t n, float top, float inverse_temperature,
                   float* out);
  // The values in [low, high] go to `inside` [n + kPickSlack] in order. A logit weighs 1, a mass
  // itself.
  Bracketed (*bracket_logits)(const float* logits, std::int64_t n, float low, float high,
                              float* inside);
  Bracketed (*bracket_masses)(const float* masses, std::int64_t n, float low, float high,
                              float* inside);
  // The values of at least `lowest` with their positions [n + kPickSlack each], in order; how many.
  std::int64_t (*collect)(const float* values, std::int64_t n, float lowest, float* found,
                          Token* positions);
  // Sum of the masses of at least `lowest`.
  double (*sum_from)(const float* masses, std::int64_t n, float lowest);
};

// Everything of one instruction set.
struct Kernels {
  const char* name;
  const GemmKernels* f32;
  const GemmKernels* bf16;
  const RowKernels* rows;

  const GemmKernels& gemm(ComputeType compute) const {
    return compute == ComputeType::bf16 ? *bf16 : *f32;
  }
};

}  // namespace hindsearch::cpu
