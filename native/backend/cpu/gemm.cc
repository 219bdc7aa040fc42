#include "native/backend/cpu/gemm.h"

#include <algorithm>
#include <utility>

#include "native/backend/cpu/division.h"
#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {
namespace {

// Of rows of A that are converted together.
constexpr std::int64_t kSharedBytes = std::int64_t{2} << 20;
// Elements of A from which on a second thread converts too (some microseconds).
constexpr std::int64_t kWorthSharing = 1 << 15;
// Rows of A that one thread converts at least.
constexpr std::int64_t kStretch = 128;
constexpr std::int64_t kMaxPanel = 16 * kMaxTileVectors;

// One k block of A in the form the tiles read.
struct Left {
  const char* data;
  std::int64_t stride;      // Tile::a_stride
  std::int64_t tile_bytes;  // from one tile's rows to the next
  bool step_major;
};

// Whether the tiles read A as it lies in memory.
bool readable(const GemmKernels& kernels, const LeftOperand& a) {
  return !kernels.convert_rows || (a.numbers.rounded && !a.transposed);
}

// Rows of A in one k block.
struct LeftBlock {
  std::int64_t row, rows;
  std::int64_t k0, k;
};

void convert_left(const GemmKernels& kernels, const LeftOperand& a, const LeftBlock& block,
                  char* to) {
  const Numbers& from = a.numbers;
  if (a.transposed) {
    const auto pack_left = from.rounded ? kernels.pack_left_rounded : kernels.pack_left;
    pack_left(from.at(kernels, block.k0, block.row), from.stride, block.k, block.rows, to);
  } else {
    kernels.convert_rows(static_cast<const float*>(from.data) + block.row * from.stride + block.k0,
                         from.stride, block.rows, block.k, to, round_up(block.k, kernels.unit));
  }
}

Left left_in_place(const GemmKernels& kernels, const LeftOperand& a, std::int64_t row,
                   std::int64_t k0) {
  const std::int64_t stride = a.numbers.stride;
  if (a.transposed) {
    return {a.numbers.at(kernels, k0, row), stride, kernels.tile_rows * kernels.left_bytes, true};
  }
  return {a.numbers.at(kernels, row, k0), stride / kernels.unit,
          kernels.tile_rows * stride * kernels.left_bytes, false};
}

Left converted_left(const GemmKernels& kernels, const LeftOperand& a, const char* data,
                    std::int64_t block) {
  const std::int64_t padded = round_up(block, kernels.unit);
  return {data, a.transposed ? kernels.tile_rows : padded / kernels.unit,
          kernels.tile_rows * padded * kernels.left_bytes, a.transposed};
}

// The rows of A that tasks on several threads share: as they lie in memory or, where the tiles read
// another form, converted once, one k block after the other.
class SharedLeft {
 public:
  // Rows [first, first + rows) of A. Uses the calling thread's Slot::shared_left.
  SharedLeft(const GemmKernels& kernels, const LeftOperand& a, std::int64_t first,
             std::int64_t rows, std::int64_t k)
      : kernels_(kernels), a_(a), first_(first), padded_rows_(round_up(rows, kernels.tile_rows)) {
    if (readable(kernels, a)) return;
    char* const to = scratch<char>(Slot::shared_left,
                                   padded_rows_ * round_up(k, kernels.unit) * kernels.left_bytes);
    data_ = to;
    // A thread mostly converts the rows that it will multiply. Where A is transposed, those of a
    // part are a stretch of every line, and a short stretch is slow to read.
    const std::int64_t tiles = padded_rows_ / kernels.tile_rows, threads = thread_count();
    for_k_blocks(kernels, k, [&](std::int64_t k0, std::int64_t size, std::int64_t padded_size) {
      const std::int64_t parts =
          rows * size < kWorthSharing
              ? 1
              : std::min(tiles, std::clamp(rows / kStretch, threads, 4 * threads));
      parallel_for(parts, [&](std::int64_t part) {
        const std::int64_t begin = tiles * part / parts * kernels.tile_rows;
        const std::int64_t end = std::min(rows, tiles * (part + 1) / parts * kernels.tile_rows);
        convert_left(kernels, a, {first + begin, end - begin, k0, size},
                     to + offset(k0, begin, padded_size));
      });
    });
  }

  // Of A's row `row`, a multiple of tile_rows behind the first, and the k block at k0.
  Left block(std::int64_t row, std::int64_t k0, std::int64_t block) const {
    if (data_) {
      return converted_left(
          kernels_, a_, data_ + offset(k0, row - first_, round_up(block, kernels_.unit)), block);
    }
    return left_in_place(kernels_, a_, row, k0);
  }

 private:
  std::int64_t offset(std::int64_t k0, std::int64_t row, std::int64_t padded_block) const {
    return (k0 * padded_rows_ + row * padded_block) * kernels_.left_bytes;
  }

  const GemmKernels& kernels_;
  const LeftOperand& a_;
  const std::int64_t first_, padded_rows_;
  const char* data_ = nullptr;
};

// A panel of one k block, where it lies in memory.
struct PackedPanel {
  const char* data = nullptr;
  std::int64_t bytes = 0;
};
std::int64_t padded_columns(const GemmKernels& kernels, const PanelView& b, std::int64_t column) {
  return round_up(std::min(panel_columns(kernels), b.columns - column), kernels.width);
}
PackedPanel panel_at(const GemmKernels& kernels, const PanelView& b, std::int64_t k0,
                     std::int64_t column) {
  const std::int64_t block = round_up(std::min(kernels.k_block, b.k - k0), kernels.unit);
  return {b.data + panel_offset(kernels, b.total_padded, k0, block, b.first + column),
          block * padded_columns(kernels, b, column) * kernels.right_bytes};
}

// What a thread computes, and the panels that it will want after these.
struct Task {
  Part part;
  PackedPanel next, then;
};

// left_of(k0, block) gives the task's rows of A.
template <class LeftOf>
void multiply_block(const GemmKernels& kernels, const Task& task, const LeftOf& left_of,
                    const PanelView& b, const AddedTo& added, float* c, std::int64_t c_stride) {
  const std::int64_t panel = panel_columns(kernels);
  const std::int64_t row = task.part.row, rows = task.part.rows, last = task.part.last;
  const std::int64_t tiles = (rows + kernels.tile_rows - 1) / kernels.tile_rows;
  const bool few = tiles < kernels.tile_vectors;
  alignas(64) float edge[kMaxTileRows * kMaxPanel];
  for_k_blocks(kernels, b.k, [&](std::int64_t k0, std::int64_t block, std::int64_t padded_block) {
    const Left left = left_of(k0, block);
    const AddedTo from = k0 > 0 ? AddedTo{c, c_stride} : added;
    // What comes after the last panel of this block of k.
    const PackedPanel after =
        k0 + block < b.k ? panel_at(kernels, b, k0 + block, task.part.first) : task.next;
    for (std::int64_t column = task.part.first; column < last; column += panel) {
      const std::int64_t count = std::min(panel, b.columns - column);
      const std::int64_t padded = padded_columns(kernels, b, column),
                         vectors = padded / kernels.width;
      Tile tile{};
      tile.steps = padded_block / kernels.unit;
      tile.a_stride = left.stride;
      tile.b = panel_at(kernels, b, k0, column).data;
      tile.b_stride = padded;
      const bool another = column + panel < last;
      PackedPanel fetch = another ? panel_at(kernels, b, k0, column + panel) : after;
      PackedPanel then = another || k0 + block < b.k ? PackedPanel{} : task.then;
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t tile_row = t * kernels.tile_rows;
        const std::int64_t tile_rows = std::min<std::int64_t>(kernels.tile_rows, rows - tile_row);
        float* out = c + (row + tile_row) * c_stride + column;
        const std::int64_t base_stride = from.stride;
        const float* base =
            from.data ? from.data + (row + tile_row) * base_stride + column : nullptr;
        tile.a = left.data + t * left.tile_bytes;
        const bool full = count == padded;
        tile.base = full ? base : nullptr;
        tile.base_stride = base_stride;
        tile.c = full ? out : edge;
        tile.c_stride = full ? c_stride : padded;
        // The first tiles of a panel fetch the next one, so that memory works while they compute:
        // all of it, also where the next block of k is longer, and not a line more.
        if (fetch.bytes <= 0) fetch = std::exchange(then, {});
        const bool fast = few && !left.step_major;
        const std::int64_t step_bytes = 64 * (fast ? kernels.tile_vectors : 1);
        tile.prefetch = fetch.data;
        tile.prefetch_steps = std::min((fetch.bytes + step_bytes - 1) / step_bytes, tile.steps);
        const auto& kernel = left.step_major ? kernels.steps[tile_rows - 1][vectors - 1]
                                             : kernels.rows[tile_rows - 1][vectors - 1][fast];
        kernel(tile);
        fetch.data += tile.prefetch_steps * step_bytes;
        fetch.bytes -= tile.prefetch_steps * step_bytes;
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

// Divides a product among threads and runs body(task), on all threads. `next` will be multiplied
// after it, by as many rows.
template <class Body>
void for_tasks(const GemmKernels& kernels, std::int64_t rows, const PanelView& b,
               const PanelView& next, int threads, Body&& body) {
  const Division division(kernels, rows, b, threads);
  const Division following = next.data ? Division(kernels, rows, next, threads) : Division();
  const std::int64_t tasks = division.tasks();
  parallel_for(tasks, [&](std::int64_t task) {
    // Who has this task, what comes after it, and then in the next product.
    const std::int64_t taker = division.taker(task);
    const std::int64_t end = division.first_task(taker + 1);
    const auto first_panel = [&](std::int64_t later) {
      if (later < end) return panel_at(kernels, b, 0, division.part(later).first);
      if (taker >= following.takers()) return PackedPanel{};
      return panel_at(kernels, next, 0, following.part(following.first_task(taker)).first);
    };
    // To compute a share of a panel takes less time than to fetch the panel after it.
    const bool short_of_time = task + 1 < end && division.shared(task + 1);
    body(Task{division.part(task), first_panel(task + 1),
              short_of_time ? first_panel(task + 2) : PackedPanel{}});
  });
}

}  // namespace

void multiply_serial(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
                     const PanelView& b, const AddedTo& base, float* c, std::int64_t c_stride,
                     const PanelView& next) {
  if (rows == 0) return;
  const std::int64_t row_block = even_rows(kernels, rows, kRowBlock);
  for (std::int64_t row = 0; row < rows; row += row_block) {
    const std::int64_t count = std::min(row_block, rows - row);
    const auto left_of = [&](std::int64_t k0, std::int64_t block) {
      if (readable(kernels, a)) return left_in_place(kernels, a, row, k0);
      const std::int64_t bytes =
          round_up(count, kernels.tile_rows) * round_up(block, kernels.unit) * kernels.left_bytes;
      char* const to = scratch<char>(Slot::left, bytes);
      convert_left(kernels, a, {row, count, k0, block}, to);
      return converted_left(kernels, a, to, block);
    };
    const PanelView& then = row + count < rows ? b : next;
    const PackedPanel after = then.data ? panel_at(kernels, then, 0, 0) : PackedPanel{};
    multiply_block(kernels, Task{{row, count, 0, b.columns}, after, {}}, left_of, b, base, c,
                   c_stride);
  }
}

void multiply(const GemmKernels& kernels, std::int64_t rows, const LeftOperand& a,
              const PanelView& b, const AddedTo& base, float* c, std::int64_t c_stride,
              const PanelView& next) {
  const int threads = useful_threads(rows * b.columns * b.k / 32);
  if (threads == 1) {
    multiply_serial(kernels, rows, a, b, base, c, c_stride, next);
    return;
  }
  const std::int64_t row_bytes = b.k * kernels.left_bytes;
  const std::int64_t blocks = std::max<std::int64_t>(1, kSharedBytes / row_bytes / kRowBlock);
  const std::int64_t together = even_rows(kernels, rows, blocks * kRowBlock);
  for (std::int64_t first = 0; first < rows; first += together) {
    const std::int64_t count = std::min(together, rows - first);
    const SharedLeft left(kernels, a, first, count, b.k);
    for_tasks(kernels, count, b, first + count < rows ? b : next, threads, [&](Task task) {
      task.part.row += first;
      const auto left_of = [&](std::int64_t k0, std::int64_t block) {
        return left.block(task.part.row, k0, block);
      };
      multiply_block(kernels, task, left_of, b, base, c, c_stride);
    });
  }
}

}  // namespace hindsearch::cpu
