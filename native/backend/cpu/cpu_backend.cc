#include "native/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/kv_layout.h"
#include "native/backend/cpu/ops.h"
#include "native/backend/cpu/parallel.h"
#include "native/backend/cpu/pass_index.h"

namespace hindsearch::cpu {
namespace {

// Some MiB of the widest results.
constexpr std::int64_t kRowsTogether = 512;

class CpuBuffer final : public Buffer {
 public:
  explicit CpuBuffer(std::int64_t floats)
      : memory_(byte_size(floats, sizeof(float))), size_(floats) {
    // By all threads: the first touch decides on whose memory controller a page lies.
    parallel_ranges(floats, 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill(data() + begin, data() + end, 0.0f);
    });
  }
  float* data() override { return static_cast<float*>(memory_.data()); }
  const float* data() const override { return static_cast<const float*>(memory_.data()); }
  std::int64_t size() const override { return size_; }

 private:
  AlignedBytes memory_;
  std::int64_t size_;
};

// Goes back to the cache when it dies.
class ScratchBuffer final : public Buffer {
 public:
  ScratchBuffer(std::shared_ptr<BlockCache> cache, std::int64_t floats)
      : cache_(std::move(cache)),
        memory_(cache_->take(byte_size(floats, sizeof(float)))),
        size_(floats) {
#if defined(__SANITIZE_ADDRESS__)
    // Whoever counts on zeros here shall find out in a test.
    std::fill(data(), data() + floats, std::numeric_limits<float>::quiet_NaN());
#endif
  }
  ~ScratchBuffer() override { cache_->give(std::move(memory_)); }
  float* data() override { return static_cast<float*>(memory_.data()); }
  const float* data() const override { return static_cast<const float*>(memory_.data()); }
  std::int64_t size() const override { return size_; }

 private:
  std::shared_ptr<BlockCache> cache_;
  AlignedBytes memory_;
  std::int64_t size_;
};

class CpuMatrix final : public PackedMatrix {
 public:
  CpuMatrix(const GemmKernels& kernels, std::int64_t n, std::int64_t k) : panels(kernels, k, n) {}
  std::int64_t rows() const override { return panels.columns(); }
  std::int64_t columns() const override { return panels.k(); }
  std::size_t bytes() const override { return panels.bytes(); }

  Panels panels;
};

const Panels& panels_of(const PackedMatrix& matrix) {
  return static_cast<const CpuMatrix&>(matrix).panels;
}

const CpuPassIndex& of(const PassIndex& index) { return static_cast<const CpuPassIndex&>(index); }

class CpuBackend final : public Backend {
 public:
  CpuBackend(ComputeType compute, const Kernels& kernels)
      : compute_(compute), kernels_(kernels), gemm_(kernels.gemm(compute)), rows_(*kernels.rows) {}

  ComputeType compute() const override { return compute_; }

  std::unique_ptr<Buffer> allocate(std::int64_t floats) override {
    return std::make_unique<CpuBuffer>(floats);
  }
  std::unique_ptr<Buffer> scratch(std::int64_t floats) override {
    return std::make_unique<ScratchBuffer>(cache_, floats);
  }
  void upload(const float* host, float* device, std::int64_t n) override { copy(host, device, n); }
  void download(const float* device, float* host, std::int64_t n) override {
    copy(device, host, n);
  }
  void copy(const float* from, float* to, std::int64_t n) override {
    parallel_ranges(n, 1, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from + begin, from + end, to + begin);
    });
  }
  void zero(float* x, std::int64_t n) override {
    parallel_ranges(
        n, 1, [&](std::int64_t begin, std::int64_t end) { std::fill(x + begin, x + end, 0.0f); });
  }
  void add(const float* x, float* y, std::int64_t n) override {
    parallel_ranges(n, 2, [&](std::int64_t begin, std::int64_t end) {
      rows_.add(x + begin, y + begin, end - begin);
    });
  }

  std::unique_ptr<PassIndex> index(bool) override { return std::make_unique<CpuPassIndex>(); }
  std::int64_t padded_rows(std::int64_t sequences) const override { return sequences; }
  std::int64_t rows_together(std::int64_t rows) const override {
    return std::min(rows, kRowsTogether);
  }
  void run(PassIndex&, std::span<const void* const>, const std::function<void()>& ops) override {
    ops();
  }

  void embed(const PassIndex& index, const float* table, std::int64_t width, float* out) override {
    gather(of(index).tokens.data(), index.rows(), table, width, out);
  }
  void embed_backward(const PassIndex& index, const float* d_out, std::int64_t width,
                      float* d_table) override {
    scatter_add(of(index).tokens.data(), index.rows(), d_out, width, d_table);
  }
  void gather(const std::int32_t* rows, std::int64_t count, const float* x, std::int64_t width,
              float* out) override {
    cpu::gather(rows, count, x, width, out);
  }
  void scatter_add(const std::int32_t* rows, std::int64_t count, const float* d_out,
                   std::int64_t width, float* d_x) override {
    cpu::scatter_add(rows_, rows, count, d_out, width, d_x);
  }

  void rms_norm(ConstHeadsView x, const float* weight, float epsilon, HeadsView y,
                float* inv_rms) override {
    parallel_ranges(x.rows, 2 * x.heads * x.width, [&](std::int64_t begin, std::int64_t end) {
      rows_.rms_norm(x, weight, epsilon, y, inv_rms, begin, end);
    });
  }
  Operand rms_norm_operand(const float* x, std::int64_t rows, std::int64_t width,
                           const float* weight, float epsilon, float* out,
                           float* inv_rms) override {
    return cpu::rms_norm_operand(kernels_, compute_, x, rows, width, weight, epsilon, out, inv_rms);
  }
  void rms_norm_backward(ConstHeadsView x, const float* inv_rms, const float* weight,
                         ConstHeadsView d_y, HeadsView d_x, float* d_weight) override {
    cpu::rms_norm_backward(rows_, x, inv_rms, weight, d_y, d_x, d_weight);
  }

  std::unique_ptr<PackedMatrix> pack(const float* weight, std::int64_t n, std::int64_t k) override {
    auto packed = std::make_unique<CpuMatrix>(gemm_, n, k);
    packed->panels.fill_transposed(weight);
    return packed;
  }
  void repack(PackedMatrix& packed, const float* weight) override {
    static_cast<CpuMatrix&>(packed).panels.fill_transposed(weight);
  }
  void linear(const Operand& x, std::int64_t rows, const PackedMatrix& weight, const Base& base,
              float* y, const PackedMatrix* next) override {
    const PanelView w = panels_of(weight).view();
    multiply(gemm_, rows, {numbers_of(gemm_, x), false}, w, {base.data, base.rows ? w.columns : 0},
             y, w.columns, next ? panels_of(*next).view() : PanelView{});
  }
  bool frozen_matrices_packed() const override { return false; }
  void linear_backward_input(const Operand& d_y, std::int64_t rows, const PackedMatrix& packed,
                             const float* weight, float* d_x) override {
    cpu::linear_backward_input(gemm_, numbers_of(gemm_, d_y), rows, weight, packed.rows(),
                               packed.columns(), d_x);
  }
  void linear_backward_weight(const Operand& d_y, const Operand& x, std::int64_t rows,
                              std::int64_t n, std::int64_t k, float* d_weight,
                              float* d_bias) override {
    cpu::linear_backward_weight(kernels_, compute_, numbers_of(gemm_, d_y), numbers_of(gemm_, x),
                                rows, n, k, d_weight, d_bias);
  }

  void rope(HeadsView x, const PassIndex& index, const float* cosines, const float* sines,
            bool inverse) override {
    const std::int32_t* positions = of(index).positions.data();
    parallel_ranges(x.rows, 2 * x.heads * x.width, [&](std::int64_t begin, std::int64_t end) {
      rows_.rope(x, positions, cosines, sines, inverse, begin, end);
    });
  }

  Operand silu_gate(const float* gate_up, std::int64_t rows, std::int64_t width,
                    float* out) override {
    return cpu::silu_gate(kernels_, compute_, gate_up, rows, width, out);
  }
  GateGradient silu_gate_backward(float* gate_up, float* d_out, std::int64_t rows,
                                  std::int64_t width) override {
    return cpu::silu_gate_backward(kernels_, compute_, gate_up, d_out, rows, width);
  }

  KvPages kv_pages(std::int32_t layers, std::int32_t heads, std::int32_t head_dim) const override {
    return cpu::kv_pages(layers, heads, head_dim);
  }
  void write_kv(ConstHeadsView keys, ConstHeadsView values, const PassIndex& index,
                const KvPages& pages, std::int32_t layer) override {
    cpu::write_kv(keys, values, of(index).sequences, pages, layer);
  }
  Operand attention(ConstHeadsView queries, const PassIndex& index, const KvPages& pages,
                    std::int32_t layer, float scale, float* out, float* statistics) override {
    return cpu::attention(kernels_, compute_, queries, of(index).sequences, pages, layer, scale,
                          out, statistics);
  }
  void attention_backward(ConstHeadsView queries, const PassIndex& index, const KvPages& pages,
                          std::int32_t layer, float scale, const float* out,
                          const float* statistics, const float* d_out, HeadsView d_queries,
                          HeadsView d_keys, HeadsView d_values) override {
    cpu::attention_backward(kernels_, queries, of(index).sequences, pages, layer, scale, out,
                            statistics, d_out, d_queries, d_keys, d_values);
  }

  void head_log_probs(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                      float temperature, const Token* targets, float* log_probs, float* log_sums,
                      float* entropies) override {
    cpu::head_log_probs(kernels_, compute_, numbers_of(gemm_, hidden), rows, panels_of(head),
                        temperature, targets, log_probs, log_sums, entropies);
  }
  void head_backward(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                     const float* weight, float temperature, const Token* targets,
                     const float* log_sums, const float* g, float* d_hidden,
                     float* d_weight) override {
    cpu::head_backward(kernels_, compute_, numbers_of(gemm_, hidden), rows, panels_of(head), weight,
                       temperature, targets, log_sums, g, d_hidden, d_weight);
  }
  void head_logits(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                   float* logits) override {
    linear(hidden, rows, head, {}, logits, nullptr);
  }
  void sample(float* logits, std::int64_t rows, std::int64_t vocabulary, const Sampling* sampling,
              const double* uniforms, Token* tokens, float* log_probs) override {
    cpu::sample(rows_, logits, rows, vocabulary, sampling, uniforms, tokens, log_probs);
  }

  double sum_of_squares(const float* x, std::int64_t n) override {
    return cpu::sum_of_squares(rows_, x, n);
  }
  void adamw(float* weights, const float* gradients, float* first_moments, float* second_moments,
             std::int64_t n, const AdamWStep& step) override {
    cpu::adamw(rows_, weights, gradients, first_moments, second_moments, n, step);
  }

 private:
  ComputeType compute_;
  const Kernels& kernels_;
  const GemmKernels& gemm_;
  const RowKernels& rows_;
  std::shared_ptr<BlockCache> cache_ = BlockCache::shared();
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(ComputeType compute, const Kernels& kernels) {
  return std::make_unique<CpuBackend>(compute, kernels);
}

}  // namespace hindsearch::cpu
