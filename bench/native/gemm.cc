// Matrix products and the ops of one training step as ratios to the peak measured in the same run.
//
//   gemm_bench [threads] [f32|bf16] [filter]
//
// The peak is the largest tile run on one line of memory, so that nothing but multiply-adds can
// limit it.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/native/measure.h"
#include "native/backend/cpu/cpu_backend.h"
#include "native/backend/cpu/isa.h"

namespace hindsearch {
namespace {

// Flop a second of one thread.
double tile_peak(const cpu::GemmKernels& gemm) {
  alignas(64) static char line[8192];
  alignas(64) static float c[cpu::kMaxTileRows * cpu::kMaxTileVectors * 16];
  cpu::Tile tile{};
  tile.steps = 100000;
  tile.a = tile.b = line;
  tile.c = c;
  tile.c_stride = std::int64_t{gemm.tile_vectors} * gemm.width;
  const double flop = 2.0 * static_cast<double>(tile.steps) * gemm.unit * gemm.tile_rows *
                      gemm.tile_vectors * gemm.width;
  return flop /
         fastest_seconds([&] { gemm.steps[gemm.tile_rows - 1][gemm.tile_vectors - 1](tile); });
}

struct Shape {
  const char* name;
  std::int64_t n, k;
};

void products(const cpu::Kernels& kernels, ComputeType compute, int threads,
              const std::string& filter) {
  const auto backend = cpu::make_cpu_backend(compute, kernels);
  const double peak = tile_peak(kernels.gemm(compute)) * threads;
  std::printf("%s %s, %d thread(s): peak %.0f GFLOP/s\n", kernels.name,
              compute == ComputeType::f32 ? "f32" : "bf16", threads, peak / 1e9);
  std::printf("%-12s %6s %18s %18s %18s\n", "shape", "rows", "forward", "input gradient",
              "weight gradient");
  constexpr Shape kShapes[] = {{"demo qkv", 288, 96},    {"demo o", 96, 96},
                               {"demo up", 384, 96},     {"demo down", 96, 192},
                               {"demo head", 220, 96},   {"tiny256 up", 1536, 256},
                               {"0.5B qkv", 1152, 896},  {"0.5B up", 9728, 896},
                               {"0.5B down", 896, 4864}, {"0.5B head", 151936, 896}};
  for (const Shape& shape : kShapes) {
    if (std::string(shape.name).find(filter) == std::string::npos) continue;
    const std::vector<float> weight(static_cast<std::size_t>(shape.n * shape.k), 0.01f);
    const auto packed = backend->pack(weight.data(), shape.n, shape.k);
    std::printf("%-12s repacked at %.2f GB/s of f32\n", shape.name,
                4e-9 * static_cast<double>(weight.size()) /
                    fastest_seconds([&] { backend->repack(*packed, weight.data()); }));
    for (const std::int64_t rows : {1, 8, 32, 64, 512, 5000}) {
      const double flop = 2.0 * static_cast<double>(rows * shape.n * shape.k);
      if (flop > 1.5e11) continue;
      const std::vector<float> x(static_cast<std::size_t>(rows * shape.k), 0.01f);
      std::vector<float> y(static_cast<std::size_t>(rows * shape.n)), d_x(x.size());
      const auto report = [&](const std::function<void()>& body) {
        const double rate = flop / fastest_seconds(body);
        std::printf(" %9.1f (%3.0f %%)   ", rate / 1e9, 100 * rate / peak);
        std::fflush(stdout);
      };
      std::printf("%-12s %6d", shape.name, static_cast<int>(rows));
      report([&] { backend->linear(x.data(), rows, *packed, nullptr, y.data(), false); });
      if (rows >= 64 && shape.n < 100000) {
        std::vector<float> d_weight(weight.size());
        report([&] {
          backend->linear_backward_input(y.data(), rows, weight.data(), shape.n, shape.k,
                                         d_x.data(), false);
        });
        report([&] {
          backend->linear_backward_weight(y.data(), x.data(), rows, shape.n, shape.k,
                                          d_weight.data(), nullptr);
        });
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  using namespace hindsearch;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string type = argc > 2 ? argv[2] : "";
  set_thread_count(threads);
  for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
    if (!type.empty() && (type == "f32") != (compute == ComputeType::f32)) continue;
    products(cpu::active_kernels(), compute, threads, argc > 3 ? argv[3] : "");
  }
}
