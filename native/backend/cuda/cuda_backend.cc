#include "native/backend/cuda/cuda_backend.h"

#include <utility>

#include "native/backend/cuda/cuda_matrix.h"
#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/runtime/cublas.h"
#include "native/backend/cuda/runtime/devices.h"
#include "native/backend/cuda/runtime/graph.h"
#include "native/backend/cuda/runtime/memory.h"
#include "native/backend/cuda/runtime/pass_index.h"

namespace hindsearch::cuda {
namespace {

const Matrix matrix_of(const PackedMatrix& packed) {
  return static_cast<const CudaMatrix&>(packed).view();
}
const Pass& pass_of(const PassIndex& index) {
  return static_cast<const CudaPassIndex&>(index).pass();
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(ComputeType compute)
      : device_(usable_device()),
        stream_(Stream::shared()),
        workspace_(stream_->get()),
        cublas_(stream_->get()),
        context_{stream_->get(), compute, device_.multiprocessors, cublas_, workspace_} {}

  ComputeType compute() const override { return context_.compute; }

  std::unique_ptr<Buffer> allocate(std::int64_t floats) override {
    return lasting_buffer(stream_, floats);
  }
  std::unique_ptr<Buffer> scratch(std::int64_t floats) override {
    return scratch_buffer(stream_, floats);
  }
  void upload(const float* host, float* device, std::int64_t n) override {
    upload_bytes(context_, host, device, bytes(n));
  }
  void download(const float* device, float* host, std::int64_t n) override {
    download_bytes(context_, device, host, bytes(n));
  }
  void copy(const float* from, float* to, std::int64_t n) override {
    if (n == 0) return;
    check(cudaMemcpyAsync(to, from, bytes(n), cudaMemcpyDeviceToDevice, context_.stream),
          "a copy on the device");
  }
  void zero(float* x, std::int64_t n) override { cuda::zero(context_, x, n); }
  void add(const float* x, float* y, std::int64_t n) override { cuda::add(context_, x, y, n); }

  std::unique_ptr<PassIndex> index(bool padded) override {
    return std::make_unique<CudaPassIndex>(context_, padded);
  }
  std::int64_t padded_rows(std::int64_t sequences) const override {
    return cuda::padded_rows(sequences);
  }
  std::int64_t rows_together(std::int64_t rows) const override { return rows; }
  void run(PassIndex& index, std::span<const void* const> key,
           const std::function<void()>& ops) override {
    static_cast<CudaPassIndex&>(index).graphs().run(context_, pass_of(index), key, ops);
  }

  void embed(const PassIndex& index, const float* table, std::int64_t width, float* out) override {
    cuda::gather(context_, pass_of(index).tokens, index.rows(), table, width, out);
  }
  void embed_backward(const PassIndex& index, const float* d_out, std::int64_t width,
                      float* d_table) override {
    const TokenRuns runs = static_cast<const CudaPassIndex&>(index).runs();
    cuda::scatter_add(context_, runs, d_out, width, d_table);
  }
  void gather(const std::int32_t* rows, std::int64_t count, const float* x, std::int64_t width,
              float* out) override {
    const Temporary<std::int32_t> on_device(context_, count);
    upload_bytes(context_, rows, on_device.data(), static_cast<std::size_t>(count) * sizeof(*rows));
    cuda::gather(context_, on_device.data(), count, x, width, out);
  }
  void scatter_add(const std::int32_t* rows, std::int64_t count, const float* d_out,
                   std::int64_t width, float* d_x) override {
    const UploadedRuns runs(context_, std::span(rows, static_cast<std::size_t>(count)));
    cuda::scatter_add(context_, runs.get(), d_out, width, d_x);
  }

  void rms_norm(ConstHeadsView x, const float* weight, float epsilon, HeadsView y,
                float* inv_rms) override {
    cuda::rms_norm(context_, x, weight, epsilon, y, inv_rms);
  }
  Operand rms_norm_operand(const float* x, std::int64_t rows, std::int64_t width,
                           const float* weight, float epsilon, float* out,
                           float* inv_rms) override {
    return cuda::rms_norm_operand(context_, x, rows, width, weight, epsilon, out, inv_rms);
  }
  void rms_norm_backward(ConstHeadsView x, const float* inv_rms, const float* weight,
                         ConstHeadsView d_y, HeadsView d_x, float* d_weight) override {
    cuda::rms_norm_backward(context_, x, inv_rms, weight, d_y, d_x, d_weight);
  }

  std::unique_ptr<PackedMatrix> pack(const float* weight, std::int64_t n, std::int64_t k) override {
    return std::make_unique<CudaMatrix>(context_, weight, n, k);
  }
  void repack(PackedMatrix& packed, const float* weight) override {
    static_cast<CudaMatrix&>(packed).fill(context_, weight);
  }
  bool frozen_matrices_packed() const override { return context_.compute == ComputeType::bf16; }
  void linear(const Operand& x, std::int64_t rows, const PackedMatrix& weight, const Base& base,
              float* y, const PackedMatrix*) override {
    cuda::linear(context_, x, rows, matrix_of(weight), base, y);
  }
  void linear_backward_input(const Operand& d_y, std::int64_t rows, const PackedMatrix& packed,
                             const float*, float* d_x) override {
    cuda::linear_backward_input(context_, d_y, rows, matrix_of(packed), d_x);
  }
  void linear_backward_weight(const Operand& d_y, const Operand& x, std::int64_t rows,
                              std::int64_t n, std::int64_t k, float* d_weight,
                              float* d_bias) override {
    cuda::linear_backward_weight(context_, d_y, x, rows, n, k, d_weight, d_bias);
  }

  void rope(HeadsView x, const PassIndex& index, const float* cosines, const float* sines,
            bool inverse) override {
    cuda::rope(context_, x, pass_of(index).positions, cosines, sines, inverse);
  }
  Operand silu_gate(const float* gate_up, std::int64_t rows, std::int64_t width,
                    float* out) override {
    return cuda::silu_gate(context_, gate_up, rows, width, out);
  }
  GateGradient silu_gate_backward(float* gate_up, float* d_out, std::int64_t rows,
                                  std::int64_t width) override {
    cuda::silu_gate_backward(context_, gate_up, d_out, rows, width);
    return {as_operand(gate_up, 2 * width), as_operand(d_out, width)};
  }

  KvPages kv_pages(std::int32_t layers, std::int32_t heads, std::int32_t head_dim) const override {
    const std::int64_t numbers = std::int64_t{2} * layers * heads * head_dim * kPageTokens;
    const bool narrow = context_.compute == ComputeType::bf16;
    return {nullptr, layers, heads, head_dim, narrow ? numbers / 2 : numbers};
  }
  void write_kv(ConstHeadsView keys, ConstHeadsView values, const PassIndex& index,
                const KvPages& pages, std::int32_t layer) override {
    cuda::write_kv(context_, keys, values, pass_of(index), pages, layer);
  }
  Operand attention(ConstHeadsView queries, const PassIndex& index, const KvPages& pages,
                    std::int32_t layer, float scale, float* out, float* statistics) override {
    cuda::attention(context_, queries, pass_of(index), pages, layer, scale, out, statistics);
    return as_operand(out, queries.heads * queries.width);
  }
  void attention_backward(ConstHeadsView queries, const PassIndex& index, const KvPages& pages,
                          std::int32_t layer, float scale, const float* out,
                          const float* statistics, const float* d_out, HeadsView d_queries,
                          HeadsView d_keys, HeadsView d_values) override {
    cuda::attention_backward(context_, queries, pass_of(index), pages, layer, scale, out,
                             statistics, d_out, d_queries, d_keys, d_values);
  }

  void head_log_probs(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                      float temperature, const Token* targets, float* log_probs, float* log_sums,
                      float* entropies) override {
    cuda::head_log_probs(context_, hidden, rows, matrix_of(head), temperature, targets, log_probs,
                         log_sums, entropies);
  }
  void head_backward(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                     const float*, float temperature, const Token* targets, const float* log_sums,
                     const float* g, float* d_hidden, float* d_weight) override {
    cuda::head_backward(context_, hidden, rows, matrix_of(head), temperature, targets, log_sums, g,
                        d_hidden, d_weight);
  }
  void head_logits(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                   float* logits) override {
    linear(hidden, rows, head, {}, logits, nullptr);
  }
  void sample(float* logits, std::int64_t rows, std::int64_t vocabulary, const Sampling* sampling,
              const double* uniforms, Token* tokens, float* log_probs) override {
    cuda::sample(context_, logits, rows, vocabulary, sampling, uniforms, tokens, log_probs);
  }

  double sum_of_squares(const float* x, std::int64_t n) override {
    return cuda::sum_of_squares(context_, x, n);
  }
  void adamw(float* weights, const float* gradients, float* first_moments, float* second_moments,
             std::int64_t n, const AdamWStep& step) override {
    cuda::adamw(context_, weights, gradients, first_moments, second_moments, n, step);
  }

 private:
  static std::size_t bytes(std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  Device device_;
  std::shared_ptr<const Stream> stream_;
  Workspace workspace_;
  Cublas cublas_;
  Context context_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(ComputeType compute) {
  return std::make_unique<CudaBackend>(compute);
}

}  // namespace hindsearch::cuda
