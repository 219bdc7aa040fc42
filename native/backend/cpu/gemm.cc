#include "native/backend/cpu/gemm.h"

#include <algorithm>

#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {
namespace {

// Rows of A that stay in the second-level cache; a multiple of every tile_rows.
constexpr std::int64_t kRowBlock = 240;
constexpr std::int64_t kMaxPanel = 16 * kMaxTileVectors;

std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

std::int64_t panel_columns(const GemmKernels& kernels) {
  return std::int64_t{kernels.tile_vectors} * kernels.width;
}

// Where panel `first` of the k block at `k0` lies, in bytes. Blocks before it are full, hence even.
std::int64_t panel_offset(const GemmKernels& kernels, std::int64_t total_padded, std::int64_t k0,
                          std::int64_t padded_block, std::int64_t first) {
  return (k0 * total_padded + first * padded_block) * kernels.right_bytes;
}

// Runs body(k0, block, padded block) for each block of k.
template <class Body>
void for_k_blocks(const GemmKernels& kernels, std::int64_t k, Body&& body) {
  for (std::int64_t k0 = 0; k0 < k; k0 += kernels.k_block) {
    const std::int64_t block = std::min(kernels.k_block, k - k0);
    body(k0, block, round_up(block, kernels.unit));
  }
}

// Packs every panel; pack(k0, block, column, columns, padded columns, to).
template <class Pack>
void pack_panels(const GemmKernels& kernels, std::int64_t k, std::int64_t columns, char* to,
                 Pack&& pack) {
  const std::int64_t panel = panel_columns(kernels);
  const std::int64_t total_padded = round_up(columns, kernels.width);
  parallel_ranges(
      (columns + panel - 1) / panel, k * panel, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t first = begin * panel; first < std::min(columns, end * panel);
             first += panel) {
          const std::int64_t count = std::min(panel, columns - first);
          for_k_blocks(kernels, k,
                       [&](std::int64_t k0, std::int64_t block, std::int64_t padded_block) {
                         pack(k0, block, first, count, round_up(count, kernels.width),
                              to + panel_offset(kernels, total_padded, k0, padded_block, first));
                       });
        }
      });
}

// One k block of A in the form the tiles read.
struct Left {
  const char* data;
  std::int64_t stride;      // Tile::a_stride
  std::int64_t tile_bytes;  // from one tile's rows to the next
  bool step_major;
};

Left left_block(const GemmKernels& kernels, const LeftOperand& a, std::int64_t row,
                std::int64_t rows, std::int64_t k0, std::int64_t block) {
  const std::int64_t padded = round_up(block, kernels.unit);
  if (!kernels.convert_rows) {
    if (!a.transposed) {
      return {reinterpret_cast<const char*>(a.data + row * a.stride + k0), a.stride,
              kernels.tile_rows * a.stride * std::int64_t{sizeof(float)}, false};
    }
    return {reinterpret_cast<const char*>(a.data + k0 * a.stride + row), a.stride,
            kernels.tile_rows * std::int64_t{sizeof(float)}, true};
  }
  const std::int64_t padded_rows = round_up(rows, kernels.tile_rows);
  char* to = scratch<char>(Slot::left, padded_rows * padded * kernels.left_bytes);
  if (a.transposed) {
    kernels.pack_left(a.data + k0 * a.stride + row, a.stride, block, rows, to);
    return {to, kernels.tile_rows, kernels.tile_rows * padded * kernels.left_bytes, true};
  }
  kernels.convert_rows(a.data + row * a.stride + k0, a.stride, rows, block, to, padded);
  return {to, padded / kernels.unit, kernels.tile_rows * padded * kernels.left_bytes, false};
}

// C[row .. row + rows, first .. last) of the view.
void multiply_block(const GemmKernels& kernels, std::int64_t row, std::int64_t rows,
                    const LeftOperand& a, const PanelView& b, std::int64_t first, std::int64_t last,
                    const float* bias, float* c, std::int64_t c_stride, bool accumulate) {
  const std::int64_t panel = panel_columns(kernels);
  const std::int64_t tiles = (rows + kernels.tile_rows - 1) / kernels.tile_rows;
  alignas(64) float edge[kMaxTileRows * kMaxPanel];
  for_k_blocks(kernels, b.k, [&](std::int64_t k0, std::int64_t block, std::int64_t padded_block) {
    const Left left = left_block(kernels, a, row, rows, k0, block);
    const bool on_c = accumulate || k0 > 0;
    for (std::int64_t column = first; column < last; column += panel) {
      const std::int64_t count = std::min(panel, b.columns - column);
      const std::int64_t vectors = (count + kernels.width - 1) / kernels.width;
      const std::int64_t padded = vectors * kernels.width;
      Tile tile{};
      tile.steps = padded_block / kernels.unit;
      tile.a_stride = left.stride;
      tile.b = b.data + panel_offset(kernels, b.total_padded, k0, padded_block, b.first + column);
      tile.b_stride = padded;
      tile.prefetch =
          static_cast<const char*>(tile.b) + padded * padded_block * kernels.right_bytes;
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t tile_row = t * kernels.tile_rows;
        const std::int64_t tile_rows = std::min<std::int64_t>(kernels.tile_rows, rows - tile_row);
        float* out = c + (row + tile_row) * c_stride + column;
        const float* base = on_c ? out : bias ? bias + column : nullptr;
        const std::int64_t base_stride = on_c ? c_stride : 0;
        tile.a = left.data + t * left.tile_bytes;
        const bool full = count == padded;
        tile.base = full ? base : nullptr;
        tile.base_stride = base_stride;
        tile.c = full ? out : edge;
        tile.c_stride = full ? c_stride : padded;
        // The first tiles of a panel fetch the next one, so that memory works while they compute.
        const int fetch = left.step_major                ? 0
                          : tiles < kernels.tile_vectors ? (t == 0 ? 2 : 0)
                          : t < kernels.tile_vectors     ? 1
                                                         : 0;
        if (left.step_major) {
          kernels.steps[tile_rows - 1][vectors - 1](tile);
        } else {
          kernels.rows[tile_rows - 1][vectors - 1][fetch](tile);
          tile.prefetch += fetch * 64 * tile.steps;
        }
        if (full) continue;
        for (std::int64_t i = 0; i < tile_rows; ++i) {
          for (std::int64_t j = 0; j < count; ++j) {
            const float sum = edge[i * padded + j];
            out[i * c_stride + j] = base ? base[i * base_stride + j] + sum : sum;
          }
        }
      }
    }
  });
}

}  // namespace

std::size_t packed_bytes(const GemmKernels& kernels, std::int64_t k, std::int64_t columns) {
  const std::size_t column_bytes =
      byte_size(round_up(k, kernels.unit), static_cast<std::size_t>(kernels.right_bytes));
  return byte_size(round_up(columns, kernels.width), column_bytes);
}

Panels::Panels(const GemmKernels& kernels, std::int64_t k, std::int64_t columns)
    : kernels_(kernels), k_(k), columns_(columns), memory_(packed_bytes(kernels, k, columns)) {}

void Panels::fill_transposed(const float* from) {
  pack_panels(kernels_, k_, columns_, static_cast<char*>(memory_.data()),
              [&](std::int64_t k0, std::int64_t block, std::int64_t first, std::int64_t count,
                  std::int64_t padded, char* to) {
                kernels_.pack_right_transposed(from + first * k_ + k0, k_, block, count, padded,
                                               to);
              });
}

PanelView Panels::view(std::int64_t first, std::int64_t columns) const {
  return {static_cast<const char*>(memory_.data()), k_, round_up(columns_, kernels_.width), first,
          columns};
}

PanelView pack_scratch(const GemmKernels& kernels, Slot slot, const float* from,
                       std::int64_t stride, std::int64_t k, std::int64_t columns) {
  char* data = static_cast<char*>(scratch_bytes(slot, packed_bytes(kernels, k, columns)));
  pack_panels(kernels, k, columns, data,
              [&](std::int64_t k0, std::int64_t block, std::int64_t first, std::int64_t count,
                  std::int64_t padded, char* to) {
                kernels.pack_right(from + k0 * stride + first, stride, block, count, padded, to);
              });
  return {data, k, round_up(columns, kernels.width), 0, columns};
}

void multiply_serial(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
                     const PanelView& b, const float* bias, float* c, std::int64_t c_stride,
                     bool accumulate) {
  for (std::int64_t row = 0; row < rows; row += kRowBlock) {
    multiply_block(kernels, row, std::min(kRowBlock, rows - row), a, b, 0, b.columns, bias, c,
                   c_stride, accumulate);
  }
}

void multiply(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
              const PanelView& b, const float* bias, float* c, std::int64_t c_stride,
              bool accumulate) {
  const std::int64_t panel = panel_columns(kernels);
  const std::int64_t panels = (b.columns + panel - 1) / panel;
  const int threads = useful_threads(rows * b.columns * b.k / 32);
  if (threads == 1) {
    multiply_serial(kernels, rows, a, b, bias, c, c_stride, accumulate);
    return;
  }
  // A few tasks a thread: columns first (A is shared), rows where columns are not enough.
  const std::int64_t wanted = 4 * threads;
  std::int64_t row_block = std::min(kRowBlock, round_up(rows, kernels.tile_rows));
  std::int64_t row_blocks = (rows + row_block - 1) / row_block;
  const std::int64_t chunk = std::clamp<std::int64_t>(panels * row_blocks / wanted, 1, 16);
  const std::int64_t chunks = (panels + chunk - 1) / chunk;
  while (row_blocks * chunks < wanted && row_block > kernels.tile_rows) {
    row_block = round_up((row_block + 1) / 2, kernels.tile_rows);
    row_blocks = (rows + row_block - 1) / row_block;
  }
  parallel_for(row_blocks * chunks, [&](std::int64_t task) {
    const std::int64_t row = task % row_blocks * row_block;
    const std::int64_t first = task / row_blocks * chunk * panel;
    multiply_block(kernels, row, std::min(row_block, rows - row), a, b, first,
                   std::min(b.columns, first + chunk * panel), bias, c, c_stride, accumulate);
  });
}

}  // namespace hindsearch::cpu
