// Micro-kernels of the matrix product for the instruction set of this translation unit.
#pragma once

#include "native/backend/cpu/kernels.h"
#include "native/backend/cpu/pack_kernels.h"
#include "native/backend/cpu/simd.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

enum class LeftLayout { row_major, step_major };

// The three operand types. `Left` and `Right` are what one row and one column hold of a step;
// step() extends kRows x kVectors chains by one step.
struct F32Operands {
  using Left = float;
  using Right = float;
  static constexpr int kUnit = 1, kLeftBytes = 4, kRightBytes = 4;
  static constexpr std::int64_t kKBlock = 512;

  template <int kRows, int kVectors, class LeftAt>
  static void step(V (&sums)[kRows][kVectors], LeftAt&& left, const float* right) {
    V b[kVectors];
    HINDSEARCH_UNROLL
    for (int j = 0; j < kVectors; ++j) b[j] = load(right + j * kWidth);
    HINDSEARCH_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const V a = splat(*left(i));
      HINDSEARCH_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = fma(a, b[j], sums[i][j]);
    }
  }
};

// bf16 pairs widened in registers; A holds floats that were rounded to bf16.
struct WidenedOperands {
  struct Left {
    float low, high;
  };
  using Right = std::uint32_t;
  static constexpr int kUnit = 2, kLeftBytes = 4, kRightBytes = 2;
  static constexpr std::int64_t kKBlock = 1024;

  template <int kRows, int kVectors, class LeftAt>
  static void step(V (&sums)[kRows][kVectors], LeftAt&& left, const std::uint32_t* right) {
    HINDSEARCH_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const U pair = load(right + j * kWidth);
      const V low = as_float(pair << 16), high = as_float(pair & 0xffff0000u);
      HINDSEARCH_UNROLL
      for (int i = 0; i < kRows; ++i) sums[i][j] = fma(splat(left(i)->low), low, sums[i][j]);
      HINDSEARCH_UNROLL
      for (int i = 0; i < kRows; ++i) sums[i][j] = fma(splat(left(i)->high), high, sums[i][j]);
    }
  }
};

#if defined(__AVX512BF16__)
struct Bf16Operands {
  using Left [[gnu::may_alias]] = std::uint32_t;  // written as halves by convert_rows
  using Right = std::uint32_t;
  static constexpr int kUnit = 2, kLeftBytes = 2, kRightBytes = 2;
  static constexpr std::int64_t kKBlock = 1024;

  template <int kRows, int kVectors, class LeftAt>
  static void step(V (&sums)[kRows][kVectors], LeftAt&& left, const std::uint32_t* right) {
    __m512bh b[kVectors];
    HINDSEARCH_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      b[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + j * kWidth));
    }
    HINDSEARCH_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m512bh a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(*left(i))));
      HINDSEARCH_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], a, b[j]);
    }
  }
};
#endif

template <class Operands, LeftLayout kLayout, int kRows, int kVectors, int kPrefetch>
void multiply_tile(const Tile& tile) {
  using Left = typename Operands::Left;
  using Right = typename Operands::Right;
  constexpr bool kRowMajor = kLayout == LeftLayout::row_major;
  V sums[kRows][kVectors];
  HINDSEARCH_UNROLL
  for (int i = 0; i < kRows; ++i) {
    HINDSEARCH_UNROLL
    for (int j = 0; j < kVectors; ++j) sums[i][j] = V{};
  }
  const Left* a = static_cast<const Left*>(tile.a);
  const Right* b = static_cast<const Right*>(tile.b);
  const char* prefetch = tile.prefetch;
  const std::int64_t row_stride = kRowMajor ? tile.a_stride : 1;
  const std::int64_t step_stride = kRowMajor ? 1 : tile.a_stride;
  const std::int64_t b_stride = tile.b_stride;
  const auto advance = [&] {
    Operands::template step<kRows, kVectors>(
        sums, [&](int i) { return a + i * row_stride; }, b);
    a += step_stride;
    b += b_stride;
  };
  std::int64_t step = 0;
  for (; step < tile.prefetch_steps; ++step) {
    HINDSEARCH_UNROLL
    for (int line = 0; line < kPrefetch; ++line) __builtin_prefetch(prefetch + line * 64, 0, 2);
    prefetch += kPrefetch * 64;
    advance();
  }
  for (; step < tile.steps; ++step) advance();
  HINDSEARCH_UNROLL
  for (int i = 0; i < kRows; ++i) {
    HINDSEARCH_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const V sum = sums[i][j];
      const std::int64_t column = j * kWidth;
      store(tile.c + i * tile.c_stride + column,
            tile.base ? load(tile.base + i * tile.base_stride + column) + sum : sum);
    }
  }
}

// --- The table. ---

template <class Operands, int kRows, int kVectors>
constexpr void fill_tiles(GemmKernels& out) {
  constexpr auto kRowMajor = LeftLayout::row_major;
  auto& rows = out.rows[kRows - 1][kVectors - 1];
  rows[0] = multiply_tile<Operands, kRowMajor, kRows, kVectors, 1>;
  rows[1] = multiply_tile<Operands, kRowMajor, kRows, kVectors, kTileVectors>;
  out.steps[kRows - 1][kVectors - 1] =
      multiply_tile<Operands, LeftLayout::step_major, kRows, kVectors, 1>;
  if constexpr (kVectors > 1) {
    fill_tiles<Operands, kRows, kVectors - 1>(out);
  } else if constexpr (kRows > 1) {
    fill_tiles<Operands, kRows - 1, kTileVectors>(out);
  }
}

template <class Operands>
constexpr GemmKernels gemm_kernels() {
  GemmKernels out{};
  out.tile_rows = kTileRows;
  out.tile_vectors = kTileVectors;
  out.width = kWidth;
  out.unit = Operands::kUnit;
  out.left_bytes = Operands::kLeftBytes;
  out.right_bytes = Operands::kRightBytes;
  out.k_block = Operands::kKBlock;
  fill_tiles<Operands, kTileRows, kTileVectors>(out);
  out.convert_rows = Operands::kUnit == 2 ? convert_rows<Operands> : nullptr;
  out.pack_left = pack_left<Operands, float>;
  out.pack_right = pack_right<Operands, float>;
  out.pack_left_rounded = pack_left<Operands, Rounded<Operands>>;
  out.pack_right_rounded = pack_right<Operands, Rounded<Operands>>;
  out.pack_right_transposed = pack_right_transposed<Operands>;
  return out;
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
