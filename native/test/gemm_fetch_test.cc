// What products fetch ahead of their use. Nothing else shows it: a panel that was not fetched is
// only slower.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "native/backend/cpu/gemm.h"
#include "native/backend/cpu/isa.h"
#include "native/core/thread_pool.h"
#include "native/test/testing.h"

namespace hindsearch::cpu {
namespace {

constexpr std::int64_t kLine = 64;

struct Stretch {
  const char* begin;
  std::int64_t bytes;
};
std::mutex mutex;
std::vector<Stretch> fetched;

// In the place of a kernel: notes what it would fetch, `lines` a step.
template <int lines>
void note(const Tile& tile) {
  const std::lock_guard lock(mutex);
  fetched.push_back({tile.prefetch, tile.prefetch_steps * lines * kLine});
}

GemmKernels noting(GemmKernels kernels) {
  for (auto& columns : kernels.rows) {
    for (auto& tile : columns) {
      tile[0] = note<1>;
      tile[1] = kernels.tile_vectors == 3 ? note<3> : note<2>;
    }
  }
  for (auto& columns : kernels.steps) {
    for (TileKernel& tile : columns) tile = note<1>;
  }
  return kernels;
}

// A product whose k is a block and three quarters, and whose last panel is a narrow one.
struct Product {
  Product(const GemmKernels& gemm, std::int64_t tiles, std::int64_t panels)
      : kernels(noting(gemm)),
        rows(tiles * kernels.tile_rows),
        k(kernels.k_block / 4 * 7),
        columns((panels - 1) * panel_columns(kernels) + kernels.width),
        a(static_cast<std::size_t>(rows * k)),
        c(static_cast<std::size_t>(rows * columns)),
        b(packed_bytes(kernels, k, columns)) {}

  LeftOperand left() const { return {{a.data(), k}, false}; }
  LeftOperand left_transposed() const { return {{a.data(), rows}, true}; }
  PanelView right() const { return {b.data(), k, columns, 0, columns}; }
  // Of every line, in the order of memory: how often it was fetched.
  std::vector<int> counts() const {
    std::vector<int> result(b.size() / kLine);
    for (const Stretch& stretch : fetched) {
      if (stretch.bytes == 0) continue;
      if (stretch.begin < b.data() || stretch.begin >= b.data() + b.size()) continue;
      const std::int64_t first = stretch.begin - b.data();
      for (std::int64_t at = first; at < first + stretch.bytes; at += kLine)
        ++result.at(static_cast<std::size_t>(at / kLine));
    }
    return result;
  }
  std::int64_t panel_lines() const {
    return kernels.k_block * panel_columns(kernels) * kernels.right_bytes / kLine;
  }

  GemmKernels kernels;
  std::int64_t rows, k, columns;
  std::vector<float> a, c;
  std::vector<char> b;
};

template <class Body>
void for_kernels(Body&& body) {
  for (const Kernels* kernels : supported_kernels()) body(*kernels->f32);
}

TEST(every_panel_but_the_first_is_fetched_once) {
  for_kernels([](const GemmKernels& gemm) {
    Product p(gemm, 4, 5);
    for (const LeftOperand& left : {p.left(), p.left_transposed()}) {
      fetched.clear();
      multiply_serial(p.kernels, p.rows, left, p.right(), {}, p.c.data(), p.columns);
      const std::vector<int> counts = p.counts();
      for (std::size_t line = 0; line < counts.size(); ++line)
        CHECK_EQ(counts[line], line < static_cast<std::size_t>(p.panel_lines()) ? 0 : 1);
    }
  });
}

// Nine panels for two threads: four for each, and the last is divided by rows, so both want it.
TEST(threads_fetch_the_panel_that_they_share) {
  set_thread_count(2);
  for_kernels([](const GemmKernels& gemm) {
    Product p(gemm, 8, 9);
    fetched.clear();
    multiply(p.kernels, p.rows, p.left(), p.right(), {}, p.c.data(), p.columns);
    const std::vector<int> counts = p.counts();
    const std::size_t shared = static_cast<std::size_t>(8 * p.panel_lines());
    const std::size_t block =
        static_cast<std::size_t>(p.kernels.k_block * p.columns * p.kernels.right_bytes / kLine);
    for (std::size_t line = 0; line < counts.size(); ++line) {
      const std::size_t panel = line / static_cast<std::size_t>(p.panel_lines());
      const int expected = line >= block              ? 1
                           : panel == 0 || panel == 4 ? 0
                           : line >= shared           ? 2
                                                      : 1;
      CHECK(counts[line] >= expected);
      if (line < shared) CHECK_EQ(counts[line], expected);
    }
  });
}

// The panels with which threads will begin the next product, where they will: one each.
TEST(the_next_product_is_fetched_for) {
  for (const int threads : {1, 2}) {
    set_thread_count(threads);
    for_kernels([&](const GemmKernels& gemm) {
      for (const std::int64_t panels : {8, 9}) {
        Product p(gemm, 8, panels), next(gemm, 8, 8);
        fetched.clear();
        multiply(p.kernels, p.rows, p.left(), p.right(), {}, p.c.data(), p.columns, next.right());
        // Threads that share a panel fetch ahead of it, and may begin twice.
        const std::int64_t second = 4 * next.panel_lines();
        const auto of_next = next.counts();
        for (std::int64_t line = 0; line < static_cast<std::int64_t>(of_next.size()); ++line) {
          const bool wanted = line < next.panel_lines() || (threads == 2 && line >= second &&
                                                            line < second + next.panel_lines());
          const int count = of_next[static_cast<std::size_t>(line)];
          CHECK(wanted ? count >= 1 && count <= 2 : count == 0);
        }
      }
    });
  }
}

}  // namespace
}  // namespace hindsearch::cpu
