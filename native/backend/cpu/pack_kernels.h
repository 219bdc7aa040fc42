// Packing of a product's operands for the instruction set of this translation unit: rounding rows,
// and laying them out as the tiles read them.
#pragma once

#include <type_traits>

#include "native/backend/cpu/simd.h"

namespace hindsearch::cpu::HINDSEARCH_ISA {

// The largest tile that leaves registers for one row of B and a broadcast.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 8, kTileVectors = 3;
#elif defined(__AVX2__)
inline constexpr int kTileRows = 6, kTileVectors = 2;
#elif defined(__aarch64__)
inline constexpr int kTileRows = 8, kTileVectors = 2;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;
#endif

// What convert_rows writes: bf16, or a float that was rounded to it.
using Half = std::uint16_t;
template <class Operands>
using Rounded = std::conditional_t<Operands::kLeftBytes == 2, Half, float>;

inline U widen(const Half* x) {
  Halves halves;
  __builtin_memcpy(&halves, x, sizeof halves);
  return __builtin_convertvector(halves, U);
}

// Words of one step of B, or of A in pairs: a float, or two bf16 of consecutive k.
template <class Operands, class Number>
inline auto words(const Number* low, const Number* high) {
  if constexpr (sizeof(Number) == 2) {
    return widen(low) | (high ? widen(high) << 16 : U{});
  } else if constexpr (Operands::kUnit == 1) {
    return load(low);
  } else {
    return pair_bf16(load(low), high ? load(high) : V{});
  }
}
template <class Operands, class Number>
inline auto word(const Number* low, const Number* high) {
  if constexpr (sizeof(Number) == 2) {
    return *low | static_cast<std::uint32_t>(high ? *high : 0) << 16;
  } else if constexpr (Operands::kUnit == 1) {
    return *low;
  } else {
    return pair_bf16(*low, high ? *high : 0.0f);
  }
}
// Of the row behind `row`, column `column`; null behind the last row of an odd k.
template <class Number>
inline const Number* second(const Number* row, std::int64_t column) {
  return row ? row + column : nullptr;
}

template <class Operands>
void convert_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t k,
                  void* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r, from += stride) {
    std::int64_t i = 0;
    if constexpr (Operands::kLeftBytes == 2) {
      auto* out = static_cast<std::uint16_t*>(to) + r * to_stride;
      for (; i + kWidth <= k; i += kWidth) {
        const Halves halves = to_bf16(load(from + i));
        __builtin_memcpy(out + i, &halves, sizeof halves);
      }
      for (; i < k; ++i) out[i] = static_cast<std::uint16_t>(round_bf16(from[i]) >> 16);
      if (k % 2 != 0) out[k] = 0;
    } else {
      auto* out = static_cast<std::uint32_t*>(to) + r * to_stride;
      for (; i + kWidth <= k; i += kWidth) store(out + i, round_bf16(load(from + i)));
      for (; i < k; ++i) out[i] = round_bf16(from[i]);
      if (k % 2 != 0) out[k] = 0;
    }
  }
}

template <class Operands, class Number>
void pack_left_steps(const Number* from, std::int64_t stride, std::int64_t k, std::int64_t rows,
                     std::int64_t begin, std::int64_t end, void* to) {
  using Left = typename Operands::Left;
  constexpr int kUnit = Operands::kUnit;
  const std::int64_t steps = (k + kUnit - 1) / kUnit;
  std::int64_t first = 0;
  // Where two tiles fill a vector: a cache line of every row at a time.
  if constexpr (kWidth == 2 * kTileRows && sizeof(Left) == 4) {
    constexpr int kLine = 64 / sizeof(Number);
    for (; first + kLine <= rows; first += kLine) {
      Left* out = static_cast<Left*>(to) + first * steps + begin * kTileRows;
      for (std::int64_t step = begin; step < end; ++step, out += kTileRows) {
        const Number* low = from + step * kUnit * stride + first;
        const Number* high = step * kUnit + 1 < k ? low + stride : nullptr;
        __builtin_prefetch(low + 4 * kLine);
        if constexpr (kUnit == 2) __builtin_prefetch(low + stride + 4 * kLine);
        HINDSEARCH_UNROLL
        for (int i = 0; i < kLine; i += kWidth) {
          const auto both = words<Operands>(low + i, second(high, i));
          Left* tile = out + i * steps;
          __builtin_memcpy(tile, &both, sizeof both / 2);
          __builtin_memcpy(tile + kTileRows * steps,
                           reinterpret_cast<const char*>(&both) + sizeof both / 2, sizeof both / 2);
        }
      }
    }
  }
  for (; first < rows; first += kTileRows) {
    Left* out = static_cast<Left*>(to) + first * steps + begin * kTileRows;
    const int count = static_cast<int>(rows - first < kTileRows ? rows - first : kTileRows);
    for (std::int64_t step = begin; step < end; ++step, out += kTileRows) {
      const Number* low = from + step * kUnit * stride + first;
      const Number* high = step * kUnit + 1 < k ? low + stride : nullptr;
      for (int i = 0; i < count; ++i) {
        if constexpr (Operands::kUnit * Operands::kLeftBytes <= 4) {
          out[i] = word<Operands>(low + i, second(high, i));
        } else {
          out[i] = {__builtin_bit_cast(float, round_bf16(low[i])),
                    __builtin_bit_cast(float, round_bf16(high ? high[i] : 0.0f))};
        }
      }
    }
  }
}

template <class Operands, class Number>
void pack_left(const void* from, std::int64_t stride, std::int64_t k, std::int64_t rows, void* to) {
  // A few lines of the source at a time, each read to its end.
  constexpr std::int64_t kRun = 16;
  const std::int64_t steps = (k + Operands::kUnit - 1) / Operands::kUnit;
  for (std::int64_t step = 0; step < steps; step += kRun) {
    pack_left_steps<Operands>(static_cast<const Number*>(from), stride, k, rows, step,
                              step + kRun < steps ? step + kRun : steps, to);
  }
}

template <class Operands, class Number>
void pack_right(const void* numbers, std::int64_t stride, std::int64_t k, std::int64_t columns,
                std::int64_t padded, void* to) {
  constexpr std::int64_t kAhead = 16;
  const auto* from = static_cast<const Number*>(numbers);
  auto* out = static_cast<typename Operands::Right*>(to);
  for (std::int64_t i = 0; i < k;
       i += Operands::kUnit, from += Operands::kUnit * stride, out += padded) {
    const Number* high = i + 1 < k ? from + stride : nullptr;
    std::int64_t j = 0;
    for (; j + kWidth <= columns; j += kWidth) {
      __builtin_prefetch(from + kAhead * stride + j);
      if constexpr (Operands::kUnit == 2) __builtin_prefetch(from + (kAhead + 1) * stride + j);
      store(out + j, words<Operands>(from + j, second(high, j)));
    }
    for (; j < columns; ++j) out[j] = word<Operands>(from + j, second(high, j));
    for (; j < padded; ++j) out[j] = 0;
  }
}

template <class Operands>
void pack_right_transposed(const float* from, std::int64_t stride, std::int64_t k,
                           std::int64_t columns, std::int64_t padded, void* to) {
  constexpr std::int64_t kUnit = Operands::kUnit;
  auto* out = static_cast<typename Operands::Right*>(to);
  // One cache line of every column at a time.
  for (std::int64_t first = 0; first < k; first += kLanes, out += kLanes / kUnit * padded) {
    const std::int64_t count = k - first < kLanes ? k - first : kLanes;
    const std::int64_t steps = (count + kUnit - 1) / kUnit;
    for (std::int64_t j = 0; j < columns; ++j) {
      const float* column = from + j * stride + first;
      // As many streams as columns are more than the processor's own prefetching follows.
      __builtin_prefetch(column + 4 * kLanes);
      if constexpr (kUnit == 1) {
        for (std::int64_t step = 0; step < steps; ++step) out[step * padded + j] = column[step];
      } else {
        const F16 values = count == kLanes ? load16(column) : load_first(column, count);
        alignas(64) std::uint32_t pairs[kLanes / 2];
        for (int part = 0; part < kParts; ++part) {
          const Halves halves = to_bf16(values.part[part]);
          __builtin_memcpy(pairs + part * kWidth / 2, &halves, sizeof halves);
        }
        for (std::int64_t step = 0; step < steps; ++step) out[step * padded + j] = pairs[step];
      }
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      for (std::int64_t j = columns; j < padded; ++j) out[step * padded + j] = 0;
    }
  }
}

}  // namespace hindsearch::cpu::HINDSEARCH_ISA
