// What the tensor-core kernels of attention's gradient are built from. A block has a tile of
// kQueryTile rows, of which each warp holds 16, and sees the other rows pass by in smaller tiles.
#pragma once

#include "native/backend/cuda/ops/attention/tiles.h"
#include "native/backend/cuda/pass.h"

namespace hindsearch::cuda {

inline constexpr int kGradientThreads = kQueryTile / 16 * kWarp;

template <int kHead>
struct GradientTiles {
  static constexpr int kStride = kTileStride<bf16, kHead>;
  // Rows that pass by at once. With more, the tiles of the widest heads would not fit into the 99
  // KiB of a block.
  static constexpr int kRows = kHead > 128 ? 16 : 32;
  static constexpr int kProducts = kRows / 8;
  // Columns of dk and dv that a block adds up: with more, their sums would not fit into registers.
  static constexpr int kColumns = kHead > 128 ? 128 : kHead;
  static constexpr std::size_t kTiles = 2 * (kQueryTile + kRows) * kStride * sizeof(bf16);
  static constexpr int kBlocks = kHead > 64 ? 2 : 3;  // on a multiprocessor, by their registers
};

// c[16 x 8 kProducts] = 16 rows of `rows` times 8 kProducts rows of `columns`.
template <int kHead, int kProducts>
__device__ void multiply_rows(const bf16* rows, const bf16* columns, const Lane& lane,
                              float (&c)[kProducts][4]) {
#pragma unroll
  for (int n = 0; n < kProducts; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
  for (int d = 0; d < kHead; d += 16) {
    std::uint32_t a[4], b[2];
    row_operand<kHead>(rows + d, lane, a);
#pragma unroll
    for (int n = 0; n < kProducts; ++n) {
      column_operand<kHead>(columns + 8 * n * kTileStride<bf16, kHead> + d, lane, b);
      mma_16x8x16(c[n], a, b);
    }
  }
}

// c[16 x 32 kGroups] += w[16 x 8 kProducts], rounded to bf16, times 8 kProducts rows of `rows`.
template <int kHead, int kProducts, int kGroups>
__device__ void add_weighted(const float (&w)[kProducts][4], const bf16* rows, const Lane& lane,
                             float (&c)[kGroups][4][4]) {
#pragma unroll
  for (int n = 0; n < kProducts; n += 2) {
    std::uint32_t a[4], b[4][2];
    left_operand(w[n], w[n + 1], a);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      paired_operand<kHead>(rows + 8 * n * kTileStride<bf16, kHead> + 32 * group, lane, b);
#pragma unroll
      for (int q = 0; q < 4; ++q) mma_16x8x16(c[group][q], a, b[q]);
    }
  }
}

// Four columns of a row of a result. `vectors`: they lie at a 16-byte boundary.
__device__ inline void store_columns(const HeadsView& view, std::int64_t row, std::int32_t head,
                                     std::int32_t column, bool vectors, const float4& x) {
  float* to = view.data + row * view.row_stride + head * view.width + column;
  if (vectors && column < view.width) {
    *reinterpret_cast<float4*>(to) = x;
    return;
  }
  if (column < view.width) to[0] = x.x;
  if (column + 1 < view.width) to[1] = x.y;
  if (column + 2 < view.width) to[2] = x.z;
  if (column + 3 < view.width) to[3] = x.w;
}

// The warp's 16 rows from `row` of the sequence on, columns from `column` on.
template <int kGroups>
__device__ void store_sums(const HeadsView& view, const PassSequence& sequence, std::int32_t row,
                           std::int32_t head, std::int32_t column, float scale, const Lane& lane,
                           const float (&c)[kGroups][4][4]) {
  const bool vectors = vector_rows<float>(view.data, view.row_stride, view.width);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int32_t r = row + lane.g + 8 * half;
    if (r >= sequence.rows) continue;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int four = 0; four < 2; ++four) {
        const int i = 2 * half + four;
        store_columns(view, std::int64_t{sequence.first_row} + r, head,
                      column + 32 * group + 8 * lane.t + 4 * four, vectors,
                      make_float4(c[group][0][i] * scale, c[group][1][i] * scale,
                                  c[group][2][i] * scale, c[group][3][i] * scale));
      }
    }
  }
}

// The first `count` numbers of a vector that is not at a boundary.
__device__ inline uint4 tile_vector(const bf16* from, int count) {
  std::uint32_t x[8]{};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) x[i] = from[i].bits;
  }
  return make_uint4(x[0] | x[1] << 16, x[2] | x[3] << 16, x[4] | x[5] << 16, x[6] | x[7] << 16);
}

// A thread's share of a tile on its way to shared memory. Of several tiles all loads are on their
// way at once, and before the block is done with what the tiles held.
template <int kHead, int kRows>
struct Share {
  static constexpr int kRowVectors = kHead / kTileVector<bf16>;
  static constexpr int kVectors = kRows * kRowVectors / kGradientThreads;
  uint4 data[kVectors];

  // As load_tile.
  template <class RowAt>
  __device__ void load(const RowAt& row_at, std::int32_t width, bool vectors) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const bf16* const row = row_at(row_of(i));
      data[i] = make_uint4(0, 0, 0, 0);
      if (!row || column_of(i) >= width) continue;
      if (vectors) {
        data[i] = tile_vector(row + column_of(i));
      } else {
        data[i] = tile_vector(row + column_of(i), width - column_of(i));
      }
    }
  }
  __device__ void store(bf16* tile) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      *reinterpret_cast<uint4*>(tile + row_of(i) * kTileStride<bf16, kHead> + column_of(i)) =
          data[i];
  }

 private:
  static __device__ int row_of(int i) {
    return (i * kGradientThreads + static_cast<int>(threadIdx.x)) / kRowVectors;
  }
  static __device__ int column_of(int i) {
    return (i * kGradientThreads + static_cast<int>(threadIdx.x)) % kRowVectors * kTileVector<bf16>;
  }
};

}  // namespace hindsearch::cuda
