// Our matrix products over layer shapes, as JSON lines (gemm_cells.h).
//
//   gemm_bench <threads> <f32|bf16> [part of a shape's name]
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/native/gemm_cells.h"
#include "native/core/thread_pool.h"

namespace hindsearch {
namespace {

class OwnGemm final : public GemmLibrary {
 public:
  explicit OwnGemm(ComputeType compute) : backend_(make_backend(compute)) {}

  void load(const float* weight, std::int64_t n, std::int64_t k, int copies) override {
    n_ = n;
    k_ = k;
    packed_.clear();
    for (int copy = 0; copy < copies; ++copy) packed_.push_back(backend_->pack(weight, n, k));
  }
  void prepare(std::int64_t rows) override {
    rows_ = rows;
    const std::vector<float> numbers(static_cast<std::size_t>(rows * k_), 0.5f),
        weight(static_cast<std::size_t>(k_), 1.0f);
    x_.resize(numbers.size());
    y_.resize(static_cast<std::size_t>(rows * n_));
    operand_ = backend_->rms_norm_operand(numbers.data(), rows, k_, weight.data(), 1e-6f, x_.data(),
                                          nullptr);
  }
  void multiply(int copy) override {
    const std::size_t at = static_cast<std::size_t>(copy);
    // As in a model, what comes next is known.
    const PackedMatrix* const next = packed_[(at + 1) % packed_.size()].get();
    backend_->linear(operand_, rows_, *packed_[at], {}, y_.data(), next);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::int64_t n_ = 0, k_ = 0, rows_ = 0;
  std::vector<std::unique_ptr<PackedMatrix>> packed_;
  std::vector<float> x_, y_;
  Operand operand_{};
};

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  using namespace hindsearch;
  if (argc < 3) return 2;
  set_thread_count(std::atoi(argv[1]));
  const auto compute = std::string(argv[2]) == "f32" ? ComputeType::f32 : ComputeType::bf16;
  OwnGemm library(compute);
  time_cells(library, {compute, argc > 3 ? argv[3] : ""});
}
