// The same products by oneDNN, weights in the layout that it asks for. Activations are handed over
// in the type of the weights, as ours are.
//
//   OMP_NUM_THREADS=<threads> onednn_bench <threads> <f32|bf16> [part of a shape's name]
#include <algorithm>
#include <cstdlib>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "bench/native/gemm_cells.h"
#include "native/core/thread_pool.h"

namespace hindsearch {
namespace {

using dnnl::memory;

class OneDnnGemm final : public GemmLibrary {
 public:
  explicit OneDnnGemm(ComputeType compute)
      : type_(compute == ComputeType::f32 ? memory::data_type::f32 : memory::data_type::bf16) {}

  void load(const float* weight, std::int64_t n, std::int64_t k, int copies) override {
    n_ = n;
    k_ = k;
    packed_.clear();
    memory plain({{k, n}, memory::data_type::f32, memory::format_tag::ba}, engine_,
                 const_cast<float*>(weight));
    for (int copy = 0; copy < copies; ++copy) {
      packed_.emplace_back(memory::desc({k, n}, type_, memory::format_tag::ba), engine_);
      reorder(plain, packed_.back());
    }
  }
  // The layout that is asked for may depend on the number of rows; each number gets its own.
  void prepare(std::int64_t rows) override {
    const memory::desc x({rows, k_}, type_, memory::format_tag::ab);
    const memory::desc weight({k_, n_}, type_, memory::format_tag::any);
    const memory::desc y({rows, n_}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(x, weight, y), engine_);
    for (memory& packed : packed_) {
      if (packed.get_desc() == chosen.weights_desc()) continue;
      memory wanted(chosen.weights_desc(), engine_);
      reorder(packed, wanted);
      packed = wanted;
    }
    product_ = dnnl::matmul(chosen);
    x_ = memory(chosen.src_desc(), engine_);
    y_ = memory(chosen.dst_desc(), engine_);
    std::fill_n(static_cast<unsigned char*>(x_.get_data_handle()), x_.get_desc().get_size(), 0x3c);
  }
  void multiply(int copy) override {
    product_.execute(stream_, {{DNNL_ARG_SRC, x_},
                               {DNNL_ARG_WEIGHTS, packed_[static_cast<std::size_t>(copy)]},
                               {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

 private:
  void reorder(memory& from, memory& to) {
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory::data_type type_;
  std::int64_t n_ = 0, k_ = 0;
  std::vector<memory> packed_;
  dnnl::matmul product_;
  memory x_, y_;
};

}  // namespace
}  // namespace hindsearch

int main(int argc, char** argv) {
  using namespace hindsearch;
  if (argc < 3) return 2;
  set_thread_count(std::atoi(argv[1]));
  const auto compute = std::string(argv[2]) == "f32" ? ComputeType::f32 : ComputeType::bf16;
  OneDnnGemm library(compute);
  time_cells(library, {compute, argc > 3 ? argv[3] : ""});
}
