// What the attention kernels share: tiles in shared memory, filled from pages or from f32 rows, and
// the tensor-core operands that are read from them.
//
// A tile holds rows of one head, zeros after the head's width. Its stride is such that neither use
// of it meets a bank twice:
//   - as rows, multiplied along the width (S = Q K^T): row_operand, column_operand;
//   - in pairs of rows, multiplied along the rows (O = P V): paired_operand.
// The order of terms inside a product is free as long as both operands agree, so a lane takes the
// terms that lie side by side in memory (four of a row with one load) and not those the
// instruction's picture shows. With g = lane / 4, t = lane % 4:
//   - along the width, lane t takes columns 4t .. 4t+3 of 16;
//   - column c of a product with column_operand is row swapped(c) of its 8 rows;
//   - along the rows, lane t takes rows paired_row(t, 0 .. 3) of 16, which are the very rows that
//   two
//     neighbouring products with column_operand have left in its accumulators: a product's result
//     is the next one's left operand without a move between lanes (left_operand);
//   - product q of the four of a paired_operand has in column c the tile's column 4c + q of 32: a
//   lane's
//     results are eight columns side by side, 8t .. 8t+7.
#pragma once

#include <type_traits>

#include "native/backend/cuda/ops/mma.h"
#include "native/backend/cuda/pass.h"

namespace hindsearch::cuda {

template <class T, int kHead>
inline constexpr int kTileStride = kHead + (sizeof(T) == 2 ? 16 : 4);

// The smallest head size that kernels are made for and `width` fits into.
template <class Body>
void for_head_class(std::int64_t width, Body&& body) {
  if (width <= 32) return body(std::integral_constant<int, 32>{});
  if (width <= 64) return body(std::integral_constant<int, 64>{});
  if (width <= 96) return body(std::integral_constant<int, 96>{});
  if (width <= 128) return body(std::integral_constant<int, 128>{});
  body(std::integral_constant<int, 256>{});
}

template <class T>
Pages<T> typed_pages(const KvPages& pages) {
  return {reinterpret_cast<T*>(pages.data), pages.layers, pages.heads, pages.head_dim};
}

// The keys of one sequence, layer and head, or its values.
template <class T>
struct PagedRows {
  Pages<T> pages;  // and not what follows from it: registers are dear
  const T* base;   // in page 0
  const std::int32_t* table;
  std::int32_t width;

  __device__ const T* row(std::int32_t j) const {
    return base + table[j / kPageTokens] * pages.page_elements() + j % kPageTokens * width;
  }
};
template <class T>
__device__ PagedRows<T> paged_keys(const Pages<T>& pages, const std::int32_t* table,
                                   std::int32_t layer, std::int32_t head) {
  return {pages, pages.keys(0, layer, head), table, pages.head_dim};
}
template <class T>
__device__ PagedRows<T> paged_values(const Pages<T>& pages, const std::int32_t* table,
                                     std::int32_t layer, std::int32_t head) {
  return {pages, pages.values(0, layer, head), table, pages.head_dim};
}

// 16 bytes of a tile.
template <class T>
inline constexpr int kTileVector = 16 / static_cast<int>(sizeof(T));

// Whether rows that lie `stride` elements apart can be read in whole vectors of a tile of T.
template <class T, class S>
__host__ __device__ bool vector_rows(const S* rows, std::int64_t stride, std::int64_t width) {
  return reinterpret_cast<std::uintptr_t>(rows) % 16 == 0 &&
         stride * static_cast<std::int64_t>(sizeof(S)) % 16 == 0 && width % kTileVector<T> == 0;
}

__device__ inline uint4 tile_vector(const bf16* from) {
  return __ldg(reinterpret_cast<const uint4*>(from));
}
template <class T>
__device__ uint4 tile_vector(const float* from) {
  if constexpr (std::is_same_v<T, float>) {
    return __ldg(reinterpret_cast<const uint4*>(from));
  } else {
    const float4 a = __ldg(reinterpret_cast<const float4*>(from));
    const float4 b = __ldg(reinterpret_cast<const float4*>(from) + 1);
    return make_uint4(pack_bf16(a.x, a.y), pack_bf16(a.z, a.w), pack_bf16(b.x, b.y),
                      pack_bf16(b.z, b.w));
  }
}

// Fills kRows rows of a tile, by all threads of the block. row_at(i) points to row i in device
// memory, of float or of T, or is null for a row of zeros. `vectors`: see vector_rows.
template <int kHead, int kRows, class T, class RowAt>
__device__ void load_tile(const RowAt& row_at, std::int32_t width, bool vectors, T* tile) {
  using Source = std::remove_cv_t<std::remove_pointer_t<decltype(row_at(0))>>;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  if (vectors) {
    constexpr int kRowVectors = kHead / kTileVector<T>, kAll = kRows * kRowVectors;
    // Several loads are on their way at once.
    constexpr int kBatch = 4;
    for (int first = thread; first < kAll; first += kBatch * threads) {
      uint4 data[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int i = first + b * threads, column = i % kRowVectors * kTileVector<T>;
        data[b] = make_uint4(0, 0, 0, 0);
        if (i >= kAll || column >= width) continue;
        const Source* row = row_at(i / kRowVectors);
        if (!row) continue;
        if constexpr (std::is_same_v<Source, float>) {
          data[b] = tile_vector<T>(row + column);
        } else {
          data[b] = tile_vector(row + column);
        }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int i = first + b * threads;
        if (i >= kAll) break;
        T* to = tile + i / kRowVectors * kTileStride<T, kHead> + i % kRowVectors * kTileVector<T>;
        *reinterpret_cast<uint4*>(to) = data[b];
      }
    }
    return;
  }
  for (int i = thread; i < kRows * kHead; i += threads) {
    const int column = i % kHead;
    const Source* row = column < width ? row_at(i / kHead) : nullptr;
    T* to = tile + i / kHead * kTileStride<T, kHead> + column;
    if constexpr (std::is_same_v<Source, T>) {
      *to = row ? row[column] : T{};
    } else {
      *to = row ? narrow<T>(row[column]) : T{};
    }
  }
}

// Keys or values first .. first + kRows - 1; those from `end` on are zeros, whatever the pages hold
// there: a weight of 0 does not undo a NaN.
template <int kHead, int kRows, class T>
__device__ void load_paged_tile(const PagedRows<T>& rows, std::int32_t first, std::int32_t end,
                                T* tile) {
  load_tile<kHead, kRows>(
      [&](int i) -> const T* { return first + i < end ? rows.row(first + i) : nullptr; },
      rows.width, rows.width % kTileVector<T> == 0, tile);
}

struct Lane {
  int g, t;
};
__device__ inline Lane lane_place() {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return {lane / 4, lane % 4};
}

__host__ __device__ constexpr int swapped(int c) { return c ^ c >> 2; }
__host__ __device__ constexpr int paired_row(int t, int i) {
  return (i & 2) * 4 + swapped(2 * t + (i & 1));
}

__device__ inline uint2 shared_pair(const bf16* from) {
  return *reinterpret_cast<const uint2*>(from);
}

// The left operand [16 x 16]: 16 rows of a tile from `tile` on, 16 columns.
template <int kHead>
__device__ void row_operand(const bf16* tile, const Lane& lane, std::uint32_t (&a)[4]) {
  const bf16* from = tile + lane.g * kTileStride<bf16, kHead> + 4 * lane.t;
  const uint2 upper = shared_pair(from), lower = shared_pair(from + 8 * kTileStride<bf16, kHead>);
  a[0] = upper.x;
  a[1] = lower.x;
  a[2] = upper.y;
  a[3] = lower.y;
}

// The right operand [16 x 8]: 8 rows of a tile, transposed; column c is row swapped(c).
template <int kHead>
__device__ void column_operand(const bf16* tile, const Lane& lane, std::uint32_t (&b)[2]) {
  const uint2 pair = shared_pair(tile + swapped(lane.g) * kTileStride<bf16, kHead> + 4 * lane.t);
  b[0] = pair.x;
  b[1] = pair.y;
}

// Two bf16 of each: the low halves, and the high halves.
__device__ inline std::uint32_t low_halves(std::uint32_t x, std::uint32_t y) {
  return (x & 0xffff) | y << 16;
}
__device__ inline std::uint32_t high_halves(std::uint32_t x, std::uint32_t y) {
  return x >> 16 | (y & 0xffff0000);
}

// Half of the right operands [16 x 8] of four products, from four columns of two rows.
__device__ inline void pair_rows(const uint2& x, const uint2& y, int half,
                                 std::uint32_t (&b)[4][2]) {
  b[0][half] = low_halves(x.x, y.x);
  b[1][half] = high_halves(x.x, y.x);
  b[2][half] = low_halves(x.y, y.y);
  b[3][half] = high_halves(x.y, y.y);
}

// Right operands [16 x 8] of four products: 16 rows of a tile, 32 columns.
template <int kHead>
__device__ void paired_operand(const bf16* tile, const Lane& lane, std::uint32_t (&b)[4][2]) {
  constexpr int kStride = kTileStride<bf16, kHead>;
  const bf16* from = tile + 4 * lane.g;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    pair_rows(shared_pair(from + paired_row(lane.t, 2 * half) * kStride),
              shared_pair(from + paired_row(lane.t, 2 * half + 1) * kStride), half, b);
  }
}

// The left operand [16 x 16] from two neighbouring results [16 x 8], rounded to bf16.
__device__ inline void left_operand(const float (&c0)[4], const float (&c1)[4],
                                    std::uint32_t (&a)[4]) {
  a[0] = pack_bf16(c0[0], c0[1]);
  a[1] = pack_bf16(c0[2], c0[3]);
  a[2] = pack_bf16(c1[0], c1[1]);
  a[3] = pack_bf16(c1[2], c1[3]);
}

}  // namespace hindsearch::cuda
