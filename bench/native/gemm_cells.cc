#include "bench/native/gemm_cells.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/native/measure.h"
#include "bench/native/peak.h"

namespace hindsearch {
namespace {

struct Shape {
  const char* name;
  std::int64_t n, k;
};
constexpr Shape kShapes[] = {{"0.5B o", 896, 896},       {"0.5B qkv", 1152, 896},
                             {"0.5B up", 9728, 896},     {"0.5B down", 896, 4864},
                             {"0.5B head", 151936, 896}, {"3B o", 2048, 2048},
                             {"3B qkv", 2560, 2048},     {"3B up", 22016, 2048},
                             {"3B down", 2048, 11008},   {"3B head", 151936, 2048}};
constexpr std::int64_t kRows[] = {1, 8, 32, 64, 256};
constexpr double kBudget = 0.03;

void print_cell(const Shape& shape, const CellOptions& options, std::int64_t rows,
                const char* source, double bytes, const CallTimes& times, double bandwidth) {
  const double flop = 2.0 * static_cast<double>(rows * shape.n * shape.k);
  std::printf(R"({"shape": "%s", "type": "%s", "rows": %d, "from": "%s", "seconds": %.6g, )"
              R"("median": %.6g, "flop": %.6g, "bytes": %.6g, "peak": %.5g, "bandwidth": %.5g})"
              "\n",
              shape.name, options.compute == ComputeType::f32 ? "f32" : "bf16",
              static_cast<int>(rows), source, times.fast, times.median, flop, bytes,
              register_peak(options.compute), bandwidth);
  std::fflush(stdout);
}

}  // namespace

void time_cells(GemmLibrary& library, const CellOptions& options) {
  const Reader memory(kMemoryBytes);
  const double cache = static_cast<double>(last_level_cache());
  // Copies that are read in turn and are together this large are never in a cache.
  const double rotated = std::max(256e6, 6 * cache);
  for (const Shape& shape : kShapes) {
    if (std::string(shape.name).find(options.shape) == std::string::npos) continue;
    const auto count = static_cast<std::size_t>(shape.n * shape.k);
    const double bytes = static_cast<double>(count) * (options.compute == ComputeType::f32 ? 4 : 2);
    const int copies = static_cast<int>(rotated / bytes) + 1;
    // Numbers of a sensible size that no library can take for zeros.
    std::vector<float> weight(count);
    for (std::size_t i = 0; i < count; ++i)
      weight[i] = static_cast<float>(i * 2654435761u % 1024) / 16384.0f - 0.03f;
    library.load(weight.data(), shape.n, shape.k, copies);
    for (const std::int64_t rows : kRows) {
      library.prepare(rows);
      // Other tenants of the machine use the cache as well.
      if (bytes < 0.75 * cache) {
        const CallTimes cached = time_calls([&](int) { library.multiply(0); }, kBudget);
        print_cell(shape, options, rows, "cache", bytes, cached, 0);
      }
      const double bandwidth = memory.bytes_per_second();
      const CallTimes streamed =
          time_calls([&](int call) { library.multiply(call % copies); }, kBudget);
      print_cell(shape, options, rows, "memory", bytes, streamed, bandwidth);
    }
  }
}

}  // namespace hindsearch
