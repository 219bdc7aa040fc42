#include "native/backend/cpu/panels.h"

#include "native/backend/cpu/parallel.h"

namespace hindsearch::cpu {
namespace {

// Packs every panel, `run` elements of k at a time; pack(k0, elements, column, columns, padded
// columns, to).
template <class Pack>
void pack_panels(const GemmKernels& kernels, std::int64_t k, std::int64_t columns, std::int64_t run,
                 char* to, Pack&& pack) {
  const std::int64_t panel = panel_columns(kernels);
  const std::int64_t total_padded = round_up(columns, kernels.width);
  parallel_ranges(
      (columns + panel - 1) / panel, k * panel, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t last = std::min(columns, end * panel);
        for_k_blocks(kernels, k,
                     [&](std::int64_t k0, std::int64_t block, std::int64_t padded_block) {
                       for (std::int64_t at = 0; at < block; at += run) {
                         for (std::int64_t first = begin * panel; first < last; first += panel) {
                           const std::int64_t count = std::min(panel, columns - first);
                           const std::int64_t padded = round_up(count, kernels.width);
                           pack(k0 + at, std::min(run, block - at), first, count, padded,
                                to + panel_offset(kernels, total_padded, k0, padded_block, first) +
                                    at * padded * kernels.right_bytes);
                         }
                       }
                     });
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
  pack_panels(kernels_, k_, columns_, k_, static_cast<char*>(memory_.data()),
              [&](std::int64_t k0, std::int64_t elements, std::int64_t first, std::int64_t count,
                  std::int64_t padded, char* to) {
                kernels_.pack_right_transposed(from + first * k_ + k0, k_, elements, count, padded,
                                               to);
              });
}

PanelView Panels::view(std::int64_t first, std::int64_t columns) const {
  return {static_cast<const char*>(memory_.data()), k_, round_up(columns_, kernels_.width), first,
          columns};
}

PanelView pack_scratch(const GemmKernels& kernels, Slot slot, const Numbers& from, std::int64_t k,
                       std::int64_t columns) {
  const auto pack_right = from.rounded ? kernels.pack_right_rounded : kernels.pack_right;
  char* data = static_cast<char*>(scratch_bytes(slot, packed_bytes(kernels, k, columns)));
  pack_panels(kernels, k, columns, 32, data,
              [&](std::int64_t k0, std::int64_t elements, std::int64_t first, std::int64_t count,
                  std::int64_t padded, char* to) {
                pack_right(from.at(kernels, k0, first), from.stride, elements, count, padded, to);
              });
  return {data, k, round_up(columns, kernels.width), 0, columns};
}

}  // namespace hindsearch::cpu
