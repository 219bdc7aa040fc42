// The op interface: everything that the model, the trainer and the decoder ask of a device.
//
// Conventions
//   - Tensors are float32, row-major, on the device. Token ids, positions and page tables of a pass
//     are in its PassIndex; what other small integers an op takes are host pointers.
//   - Ops run in the order of the calls, on a device of its own perhaps later than the call
//     returns. download, sample and sum_of_squares wait. Host memory may change as soon as a call
//     returns.
//   - Axes: B sequences, T tokens of a sequence, R rows (packed tokens of all sequences), C hidden
//     width, F feed-forward width, H query heads, K key/value heads, D head size, V vocabulary.
//   - Every op computes a row in one fixed order of additions that depends on nothing but that
//     row: not on R, not on the other rows, not on the number of threads. Weight gradients sum over
//     rows in row order. This is what makes a rollout's log-prob equal to the trainer's, bit for
//     bit.
//   - ComputeType::bf16 rounds both operands of a matrix product to bf16 (to nearest even) and
//     accumulates in f32; everything else is f32 in both types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hindsearch {

using Token = std::int32_t;

enum class ComputeType { f32, bf16 };

// A weight matrix [N, K] laid out for Backend::linear. Opaque; made and refilled by its backend.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual std::int64_t rows() const = 0;     // N, outputs
  virtual std::int64_t columns() const = 0;  // K, inputs
  virtual std::size_t bytes() const = 0;
};

// Device memory with an owner.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual float* data() = 0;
  virtual const float* data() const = 0;
  virtual std::int64_t size() const = 0;  // floats
};

// Element (row, head, i) of a view is data[row * row_stride + head * width + i].
struct HeadsView {
  float* data;
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t width;
  std::int64_t row_stride;
};
struct ConstHeadsView {
  const float* data;
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t width;
  std::int64_t row_stride;
  ConstHeadsView(const float* d, std::int64_t r, std::int64_t h, std::int64_t w, std::int64_t s)
      : data(d), rows(r), heads(h), width(w), row_stride(s) {}
  ConstHeadsView(const HeadsView& v)  // NOLINT: a mutable view is a view
      : data(v.data), rows(v.rows), heads(v.heads), width(v.width), row_stride(v.row_stride) {}
};

// A matrix [R, K] that products read. What products alone read may be rounded to their type once,
// when it is written, and not by each of them: `rounded` rows are in a form of the backend's own.
struct Operand {
  const float* data;
  std::int64_t stride;  // floats from one row to the next; K where it is not rounded
  bool rounded;
};
inline Operand as_operand(const float* x, std::int64_t width) { return {x, width, false}; }

// What a product is added to: nothing, a bias [N], or rows [R, N], which may be where its result
// goes.
struct Base {
  const float* data = nullptr;
  bool rows = false;
};
inline Base bias_of(const float* bias) { return {bias, false}; }
inline Base rows_of(const float* rows) { return {rows, true}; }

// Keys and values live in pages of kPageTokens tokens. Key j of a sequence is in lane
// j % kPageTokens of its page j / kPageTokens. What a page looks like inside is its backend's
// matter, which says how many floats it takes (Backend::kv_pages).
inline constexpr std::int32_t kPageTokens = 16;

struct KvPages {
  float* data;
  std::int32_t layers;
  std::int32_t heads;
  std::int32_t head_dim;
  std::int64_t page_floats;  // even where numbers are narrower than a float
};

// The new rows of one sequence inside a packed batch.
struct SequenceRows {
  std::int64_t first_row;     // its first row in the packed tensors
  std::int32_t rows;          // new tokens
  std::int32_t past;          // tokens before them, already in the cache
  const std::int32_t* pages;  // ceil((past + rows) / kPageTokens) page numbers
};

// What the rows of a pass are, where the device finds it. Made by its backend, for one pass or, by
// a further assign(), for one after the other.
class PassIndex {
 public:
  virtual ~PassIndex() = default;
  // tokens and positions [rows]; the rows of the sequences lie one after the other. All three must
  // stay as they are for the ops of the pass.
  virtual void assign(std::span<const Token> tokens, std::span<const std::int32_t> positions,
                      std::span<const SequenceRows> sequences) = 0;
  // Rows that the ops of the pass work on: those assigned, or more (Backend::padded_rows).
  virtual std::int64_t rows() const = 0;
};

// The distribution a token is drawn from. temperature 0 is greedy: the first of the largest
// logits; others are those of temperature.h. Filters apply in the order temperature, top-k, top-p,
// min-p, each on the renormalised result of the one before. top-k keeps all ties of the k-th; top-p
// drops from the smallest up while the dropped mass is at most 1 - top_p, among equals the higher
// ids first.
struct Sampling {
  float temperature = 1;
  std::int32_t top_k = 0;  // 0: off
  float top_p = 1;         // 1: off
  float min_p = 0;         // 0: off
};

struct AdamWStep {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
  std::int64_t step;     // 1 for the first update (bias correction)
  float gradient_scale;  // multiplied into every gradient (global-norm clipping)
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual ComputeType compute() const = 0;

  // --- Memory. Throws Error(OUT_OF_MEMORY). New buffers are zero. ---
  virtual std::unique_ptr<Buffer> allocate(std::int64_t floats) = 0;
  // Working memory of one pass: contents undefined, and when the buffer is gone kept for the next.
  virtual std::unique_ptr<Buffer> scratch(std::int64_t floats) = 0;
  virtual void upload(const float* host, float* device, std::int64_t n) = 0;
  virtual void download(const float* device, float* host, std::int64_t n) = 0;
  virtual void copy(const float* from, float* to, std::int64_t n) = 0;
  virtual void zero(float* x, std::int64_t n) = 0;
  virtual void add(const float* x, float* y, std::int64_t n) = 0;  // y += x

  // --- Passes. ---
  // `padded`: for passes of one new token a sequence, whose rows are rounded up to padded_rows.
  virtual std::unique_ptr<PassIndex> index(bool padded) = 0;
  // Rows that such a pass of `sequences` sequences is run with: so many, or more where recorded
  // passes come in a few sizes. What it writes must hold that many.
  virtual std::int64_t padded_rows(std::int64_t sequences) const = 0;
  // With how many of a pass's rows ops that hand wide results on are best run at a time: so many
  // that a cache holds those, or all where no cache does.
  virtual std::int64_t rows_together(std::int64_t rows) const = 0;
  // Runs `ops`, which enqueues a pass over `index`: what it does depends on the index's contents
  // and on `key`, the addresses that it uses beside the index, alone. A backend may record it and
  // play the record the next time, so `ops` must neither wait nor read what it computed.
  virtual void run(PassIndex& index, std::span<const void* const> key,
                   const std::function<void()>& ops) = 0;

  // --- Embedding: out[r] = table[token of row r]; backward adds rows in row order. ---
  virtual void embed(const PassIndex& index, const float* table, std::int64_t width,
                     float* out) = 0;
  virtual void embed_backward(const PassIndex& index, const float* d_out, std::int64_t width,
                              float* d_table) = 0;
  // out[i] = x[rows[i]], and its gradient d_x[rows[i]] += d_out[i]; the row numbers ascend.
  virtual void gather(const std::int32_t* rows, std::int64_t count, const float* x,
                      std::int64_t width, float* out) = 0;
  virtual void scatter_add(const std::int32_t* rows, std::int64_t count, const float* d_out,
                           std::int64_t width, float* d_x) = 0;

  // --- RMSNorm over `width` of every (row, head); hidden states are a view with one head.
  // inv_rms [rows, heads] may be null in the forward. In place (y.data == x.data) is allowed.
  // Backward adds to d_x and to d_weight. ---
  virtual void rms_norm(ConstHeadsView x, const float* weight, float epsilon, HeadsView y,
                        float* inv_rms) = 0;
  // The same of x [R, C] for products alone, in `out` [R, C], which is not x.
  virtual Operand rms_norm_operand(const float* x, std::int64_t rows, std::int64_t width,
                                   const float* weight, float epsilon, float* out,
                                   float* inv_rms) = 0;
  virtual void rms_norm_backward(ConstHeadsView x, const float* inv_rms, const float* weight,
                                 ConstHeadsView d_y, HeadsView d_x, float* d_weight) = 0;

  // --- Linear layers, weights [N, K] row-major. ---
  virtual std::unique_ptr<PackedMatrix> pack(const float* weight, std::int64_t n,
                                             std::int64_t k) = 0;
  virtual void repack(PackedMatrix& packed, const float* weight) = 0;
  // Whether a frozen copy of the weights shall keep its matrices in packed form alone, because
  // memory on the device is dear.
  virtual bool frozen_matrices_packed() const = 0;
  // y[R, N] = base + x[R, K] w^T. `next` (or null) are the weights of the linear layer after this
  // one, which a backend may begin to fetch.
  virtual void linear(const Operand& x, std::int64_t rows, const PackedMatrix& weight,
                      const Base& base, float* y, const PackedMatrix* next) = 0;
  // d_x[R, K] = d_y[R, N] w. `packed` was made of `weight`: a backend reads whichever suits it.
  virtual void linear_backward_input(const Operand& d_y, std::int64_t rows,
                                     const PackedMatrix& packed, const float* weight,
                                     float* d_x) = 0;
  // d_weight[N, K] += d_y^T x;  d_bias[N] += column sums of d_y, which then is not rounded (may be
  // null).
  virtual void linear_backward_weight(const Operand& d_y, const Operand& x, std::int64_t rows,
                                      std::int64_t n, std::int64_t k, float* d_weight,
                                      float* d_bias) = 0;

  // --- Rotary position embedding, half-split form, in place. cos/sin are [positions, D/2] tables;
  // `inverse` rotates back, which is its gradient. ---
  virtual void rope(HeadsView x, const PassIndex& index, const float* cosines, const float* sines,
                    bool inverse) = 0;

  // --- Gated MLP: gate_up [R, 2F] holds gate then up; out[R, F] = silu(gate) * up. The backward
  // works in place: gate_up becomes its gradient, and d_out becomes out once more, so that a layer
  // need not keep it. What they write is for products alone. ---
  virtual Operand silu_gate(const float* gate_up, std::int64_t rows, std::int64_t width,
                            float* out) = 0;
  struct GateGradient {
    Operand d_gate_up, out;
  };
  virtual GateGradient silu_gate_backward(float* gate_up, float* d_out, std::int64_t rows,
                                          std::int64_t width) = 0;

  // --- Causal grouped-query attention over pages. Row i of a sequence sees keys 0..past+i. ---
  // Memory that pages take; `data` is left to the caller.
  virtual KvPages kv_pages(std::int32_t layers, std::int32_t heads,
                           std::int32_t head_dim) const = 0;
  virtual void write_kv(ConstHeadsView keys, ConstHeadsView values, const PassIndex& index,
                        const KvPages& pages, std::int32_t layer) = 0;
  // out[R, H*D]; statistics [R, H, 2] = (maximum, sum of exponentials). Both stay floats for the
  // backward; where statistics are null there will be none, and out is for products alone.
  virtual Operand attention(ConstHeadsView queries, const PassIndex& index, const KvPages& pages,
                            std::int32_t layer, float scale, float* out, float* statistics) = 0;
  // For sequences without past. Overwrites d_queries, d_keys, d_values.
  virtual void attention_backward(ConstHeadsView queries, const PassIndex& index,
                                  const KvPages& pages, std::int32_t layer, float scale,
                                  const float* out, const float* statistics, const float* d_out,
                                  HeadsView d_queries, HeadsView d_keys, HeadsView d_values) = 0;

  // --- Vocabulary head. `head` holds the first V rows of the output embedding; rows beyond the
  // tokenizer's vocabulary are simply not in it. Logits of more than a small block of rows are
  // never held. All log-probs are of softmax(logits / temperature). ---
  // log_probs[R] of targets[R], log_sums[R] (of logits / temperature), entropies[R] in nats (may be
  // null). The per-row arithmetic is that of `sample`.
  virtual void head_log_probs(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                              float temperature, const Token* targets, float* log_probs,
                              float* log_sums, float* entropies) = 0;
  // g[R] = dL/dlogprob. d_hidden[R, C] is overwritten, d_weight[V, C] is added to:
  // dlogits = g * (onehot(target) - softmax(logits / temperature)) / temperature.
  virtual void head_backward(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                             const float* weight, float temperature, const Token* targets,
                             const float* log_sums, const float* g, float* d_hidden,
                             float* d_weight) = 0;
  // All logits [R, V] of a few rows, unscaled.
  virtual void head_logits(const Operand& hidden, std::int64_t rows, const PackedMatrix& head,
                           float* logits) = 0;
  // Draws one token a row from logits [R, V] (overwritten) with uniform numbers in [0, 1).
  // log_probs are of the distribution drawn from; for greedy rows of the untruncated distribution
  // at temperature 1. A row with a NaN, with +inf, or with nothing above -inf has no distribution:
  // its token is 0 and its log-prob NaN, and no other row suffers.
  virtual void sample(float* logits, std::int64_t rows, std::int64_t vocabulary,
                      const Sampling* sampling, const double* uniforms, Token* tokens,
                      float* log_probs) = 0;

  // --- Optimizer. ---
  // Sum in float64 over fixed blocks, so that it does not depend on the number of threads.
  virtual double sum_of_squares(const float* x, std::int64_t n) = 0;
  // Decoupled weight decay (Loshchilov & Hutter 2019): w *= 1 - lr * decay, then the bias-corrected
  // Adam update.
  virtual void adamw(float* weights, const float* gradients, float* first_moments,
                     float* second_moments, std::int64_t n, const AdamWStep& step) = 0;
};

// The backend this binary was linked with.
std::unique_ptr<Backend> make_backend(ComputeType compute);

// Bytes of all buffers, matrices and scratch of this process: now, the most so far, and those of
// now that are kept for the next pass alone. From any thread.
struct MemoryUse {
  std::size_t bytes;
  std::size_t peak;
  std::size_t kept;
};
MemoryUse memory_use();

// Name of the instruction set in use, e.g. "avx512-bf16". HINDSEARCH_ISA forces a lower one.
const char* instruction_set();

// The device that this binary computes on. What keeps it from computing is an answer too, so asking
// throws nothing.
struct DeviceInfo {
  std::string description;  // what it is, and what computes on it; empty where nothing was found
  std::string unavailable;  // why it cannot be used and what to do; empty: it can
  std::size_t total_bytes = 0;  // of its own memory; 0: it uses the machine's
  std::size_t free_bytes = 0;
};
DeviceInfo device_info();

}  // namespace hindsearch
