// How products are divided among threads. A part that is computed twice, or by a thread that did
// not expect it, is only slower.
#include "native/backend/cpu/division.h"

#include <cstdint>
#include <vector>

#include "native/backend/cpu/isa.h"
#include "native/core/thread_pool.h"
#include "native/test/testing.h"

namespace hindsearch::cpu {
namespace {

struct Size {
  std::int64_t rows, k, columns;
};
constexpr Size kSizes[] = {{1, 896, 151936}, {8, 896, 896},     {32, 896, 896},
                           {32, 896, 1152},  {64, 4864, 896},   {265, 2048, 2560},
                           {700, 100, 1000}, {4096, 256, 1024}, {3, 16, 40}};

template <class Body>
void for_divisions(Body&& body) {
  for (const Kernels* kernels : supported_kernels()) {
    for (const int threads : {1, 2, 3, 8}) {
      set_thread_count(threads);
      for (const Size& size : kSizes) {
        const GemmKernels& gemm = *kernels->f32;
        const PanelView b{nullptr, size.k, size.columns, 0, size.columns};
        body(gemm, size, Division(gemm, size.rows, b, threads));
      }
    }
  }
  set_thread_count(2);
}

TEST(every_element_belongs_to_one_task) {
  for_divisions([](const GemmKernels& gemm, const Size& size, const Division& division) {
    const std::int64_t panel = panel_columns(gemm), panels = (size.columns + panel - 1) / panel;
    std::vector<int> owners(static_cast<std::size_t>(size.rows * panels));
    for (std::int64_t task = 0; task < division.tasks(); ++task) {
      const Part part = division.part(task);
      CHECK(part.rows > 0 && part.row % gemm.tile_rows == 0);
      CHECK(part.first < part.last && part.first % panel == 0);
      for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
        for (std::int64_t at = part.first; at < part.last; at += panel)
          ++owners.at(static_cast<std::size_t>(row * panels + at / panel));
      }
    }
    for (const int count : owners) CHECK_EQ(count, 1);
  });
}

TEST(tasks_are_expected_by_the_thread_that_gets_them) {
  for_divisions([](const GemmKernels&, const Size&, const Division& division) {
    for (std::int64_t task = 0; task < division.tasks(); ++task) {
      const std::int64_t taker = division.taker(task);
      CHECK(division.first_task(taker) <= task && task < division.first_task(taker + 1));
    }
    CHECK_EQ(division.first_task(division.takers()), division.tasks());
  });
}

// Threads whose caches hold the rows they wrote last.
TEST(threads_keep_their_rows_from_one_product_to_the_next) {
  set_thread_count(2);
  for (const Kernels* kernels : supported_kernels()) {
    const GemmKernels& gemm = *kernels->f32;
    std::int64_t boundary = -1;  // between the rows of the first thread and those of the second
    for (const std::int64_t columns : {256, 512, 2048}) {
      const PanelView b{nullptr, 256, columns, 0, columns};
      const Division division(gemm, 4096, b, 2);
      const std::int64_t second = division.part(division.first_task(1)).row;
      if (boundary >= 0) CHECK_EQ(second, boundary);
      boundary = second;
      CHECK(boundary > 1900 && boundary < 2200);
      for (std::int64_t task = 0; task < division.tasks(); ++task) {
        const Part part = division.part(task);
        CHECK(division.taker(task) == 0 ? part.row + part.rows <= boundary : part.row >= boundary);
      }
    }
  }
}

// Every thread has as many whole panels, and a share of each that is left over.
TEST(panels_that_are_left_over_are_shared) {
  set_thread_count(2);
  for (const Kernels* kernels : supported_kernels()) {
    const GemmKernels& gemm = *kernels->f32;
    const std::int64_t columns = 19 * panel_columns(gemm);
    const PanelView b{nullptr, 2048, columns, 0, columns};
    const Division division(gemm, 4 * gemm.tile_rows, b, 2);
    if (division.tasks() != 20) continue;  // where a task is several panels
    for (std::int64_t task = 0; task < 20; ++task) {
      CHECK_EQ(division.shared(task), task % 10 == 9);
      CHECK_EQ(division.part(task).rows, (task % 10 == 9 ? 2 : 4) * gemm.tile_rows);
    }
  }
}

}  // namespace
}  // namespace hindsearch::cpu
