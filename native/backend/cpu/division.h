// How a product is divided into tasks for threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "native/backend/cpu/panels.h"
#include "native/core/thread_pool.h"

namespace hindsearch::cpu {

// The most rows of A that stay in the second-level cache; a multiple of every tile_rows.
inline constexpr std::int64_t kRowBlock = 264;

// Parts of at most `most` rows that are about as long, in whole tiles: a short last part would read
// all of B for a few rows.
inline std::int64_t even_rows(const GemmKernels& kernels, std::int64_t rows, std::int64_t most) {
  const std::int64_t parts = (rows + most - 1) / most;
  return round_up((rows + parts - 1) / parts, kernels.tile_rows);
}

// Rows and columns [first, last) of a product that one thread computes.
struct Part {
  std::int64_t row, rows;
  std::int64_t first, last;
};

// The tasks in the order in which parallel_for() deals them out. A thread has rows of its own where
// there are blocks of them for all threads, and the same ones in every product: what it wrote in
// one is in its own cache for the next. Else it has columns of its own.
class Division {
 public:
  Division() = default;  // of nothing
  Division(const GemmKernels& kernels, std::int64_t rows, const PanelView& b, int threads)
      : rows_(rows), columns_(b.columns), tile_rows_(kernels.tile_rows), threads_(thread_count()) {
    const std::int64_t panel = panel_columns(kernels), panels = (b.columns + panel - 1) / panel;
    // Columns first, so that every packed column is read once; rows where columns are not enough.
    const std::int64_t enough = 4 * threads;
    row_block_ = even_rows(kernels, rows, kRowBlock);
    row_blocks_ = (rows + row_block_ - 1) / row_block_;
    while (row_blocks_ * panels < enough && row_block_ > tile_rows_) {
      row_block_ = round_up((row_block_ + 1) / 2, tile_rows_);
      row_blocks_ = (rows + row_block_ - 1) / row_block_;
    }
    // The last tasks leave threads idle, so there are many of them; but not so many that handing
    // them out takes time.
    const std::int64_t worth = kTaskSize / (row_block_ * panel * b.k);
    const std::int64_t chunk =
        std::clamp<std::int64_t>(std::max(panels * row_blocks_ / (4 * enough),
                                          std::min(worth, panels * row_blocks_ / enough)),
                                 1, 16);
    chunk_columns_ = chunk * panel;
    // Few panels that cannot be dealt out evenly: those left over are divided by rows instead.
    tiles_ = (rows + tile_rows_ - 1) / tile_rows_;
    const bool few = chunk == 1 && row_blocks_ == 1 && panels > threads_ && tiles_ >= threads_;
    shared_panels_ = few ? panels % threads_ : 0;
    chunks_ = (panels - shared_panels_ + chunk - 1) / chunk;
    tasks_ = row_blocks_ * chunks_ + shared_panels_ * threads_;
  }

  std::int64_t tasks() const { return tasks_; }
  // How many threads have tasks of their own, and the one that has this task.
  std::int64_t takers() const { return std::min(threads_, tasks_); }
  std::int64_t taker(std::int64_t task) const { return ((task + 1) * takers() - 1) / tasks_; }
  std::int64_t first_task(std::int64_t taker) const {
    return hindsearch::first_task(tasks_, takers(), taker);
  }
  // Whether other threads compute other rows of the same panel. A thread's last tasks do.
  bool shared(std::int64_t task) const {
    return shared_panels_ > 0 && task % (tasks_ / threads_) >= chunks_ / threads_;
  }
  Part part(std::int64_t task) const {
    if (shared_panels_ > 0) {
      const std::int64_t each = tasks_ / threads_, whole = chunks_ / threads_;
      const std::int64_t thread = task / each, i = task % each;
      if (i < whole) return of_columns(0, rows_, thread * whole + i);
      return of_columns(tiles_ * thread / threads_ * tile_rows_,
                        std::min(rows_, tiles_ * (thread + 1) / threads_ * tile_rows_),
                        chunks_ + i - whole);
    }
    // The blocks of rows in as many groups as there are threads, in each one chunk of columns after
    // the other.
    const std::int64_t groups = std::min(threads_, row_blocks_);
    const std::int64_t group = ((task / chunks_ + 1) * groups - 1) / row_blocks_;
    const std::int64_t first = row_blocks_ * group / groups;
    const std::int64_t blocks = row_blocks_ * (group + 1) / groups - first;
    const std::int64_t i = task - first * chunks_;
    const std::int64_t row = (first + i % blocks) * row_block_;
    return of_columns(row, std::min(rows_, row + row_block_), i / blocks);
  }

 private:
  // Multiply-adds that make a task worth handing out (some microseconds).
  static constexpr std::int64_t kTaskSize = 1 << 20;

  Part of_columns(std::int64_t row, std::int64_t end, std::int64_t chunk) const {
    const std::int64_t first = chunk * chunk_columns_;
    return {row, end - row, first, std::min(columns_, first + chunk_columns_)};
  }

  std::int64_t rows_ = 0, columns_ = 0, tile_rows_ = 0, threads_ = 1;
  std::int64_t row_block_ = 0, row_blocks_ = 0, tiles_ = 0;
  std::int64_t chunk_columns_ = 0, chunks_ = 0;
  std::int64_t shared_panels_ = 0;
  std::int64_t tasks_ = 0;
};

}  // namespace hindsearch::cpu
