// Sequences with a past and new rows, with the same pages on the device and on the CPU.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "native/backend/cuda/runtime/pass_index.h"
#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {

struct AttentionShape {
  std::int32_t heads, kv_heads, width;
  struct Sequence {
    std::int32_t past, rows;
  };
  std::vector<Sequence> sequences;
};

struct AttentionResult {
  Floats out;         // [R, H, D], the pass's padding included
  Floats statistics;  // [R, H, 2]
};

// What a result holds where nothing was written.
inline constexpr float kUntouched = 5;

class AttentionCase {
 public:
  static constexpr std::int32_t kLayers = 2, kLayer = 1;

  // In bf16 the operands are such that rounding does not change them: what differs from the CPU,
  // which computes attention in f32 for both types, is the kernel's doing.
  AttentionCase(const AttentionShape& shape, ComputeType compute) : shape(shape) {
    std::uint64_t seed = 11;
    for (const auto& s : shape.sequences) {
      tokens_.push_back(normal(static_cast<std::size_t>((s.past + s.rows) * stride()), seed++));
      if (compute == ComputeType::bf16) tokens_.back() = widened(narrowed(tokens_.back()));
      page_count_ += pages_of(s.past + s.rows);
    }
    std::int32_t next = page_count_;
    for (const auto& s : shape.sequences) {
      auto& own = tables_.emplace_back();
      // Descending and so not contiguous.
      for (std::int32_t p = 0; p < pages_of(s.past + s.rows); ++p) own.push_back(--next);
    }
  }

  std::int64_t stride() const {
    return std::int64_t{shape.heads + 2 * shape.kv_heads} * shape.width;
  }
  std::int64_t out_width() const { return std::int64_t{shape.heads} * shape.width; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.width)); }

  // Rows first .. first + count - 1 of the chosen sequences, as one pass.
  struct Rows {
    std::vector<SequenceRows> sequences;
    Floats qkv;
    std::vector<Token> tokens;
    std::vector<std::int32_t> positions;
  };
  template <class Piece>  // of a sequence's number: {first, count}
  Rows rows(std::span<const std::size_t> chosen, const Piece& piece) const {
    Rows out;
    for (const std::size_t s : chosen) {
      const AttentionShape::Sequence part = piece(s);
      out.sequences.push_back(
          {static_cast<std::int64_t>(out.tokens.size()), part.rows, part.past, tables_[s].data()});
      const auto from = tokens_[s].begin() + part.past * stride();
      out.qkv.insert(out.qkv.end(), from, from + part.rows * stride());
      out.tokens.resize(out.tokens.size() + static_cast<std::size_t>(part.rows));
      out.positions.resize(out.tokens.size());
    }
    return out;
  }
  Rows past_rows(std::span<const std::size_t> chosen) const {
    return rows(chosen, [&](std::size_t s) {
      return AttentionShape::Sequence{0, shape.sequences[s].past};
    });
  }
  Rows new_rows(std::span<const std::size_t> chosen) const {
    return rows(chosen, [&](std::size_t s) { return shape.sequences[s]; });
  }
  std::vector<std::size_t> all() const {
    std::vector<std::size_t> out(shape.sequences.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i;
    return out;
  }

  // With `magnitudes` of the absolute values of all values.
  AttentionResult on_cpu(Backend& cpu, bool magnitudes = false) const {
    KvPages pages = cpu.kv_pages(kLayers, shape.kv_heads, shape.width);
    Floats memory(static_cast<std::size_t>(pages.page_floats * page_count_));
    pages.data = memory.data();
    const auto index = cpu.index(false);
    AttentionResult result;
    for (Rows rows : {past_rows(all()), new_rows(all())}) {
      const auto count = static_cast<std::int64_t>(rows.tokens.size());
      if (count == 0) continue;
      result.out.assign(static_cast<std::size_t>(count * out_width()), kUntouched);
      result.statistics.assign(static_cast<std::size_t>(count * shape.heads * 2), kUntouched);
      index->assign(rows.tokens, rows.positions, rows.sequences);
      if (magnitudes) {
        const std::int64_t width = std::int64_t{shape.kv_heads} * shape.width;
        for (std::int64_t r = 1; r <= count; ++r) {
          for (std::int64_t i = r * stride() - width; i < r * stride(); ++i) {
            float& x = rows.qkv[static_cast<std::size_t>(i)];
            x = std::abs(x);
          }
        }
      }
      cpu.write_kv(keys(rows.qkv.data(), count), values(rows.qkv.data(), count), *index, pages,
                   kLayer);
      cpu.attention(queries(rows.qkv.data(), count), *index, pages, kLayer, scale(),
                    result.out.data(), result.statistics.data());
    }
    return result;
  }

  ConstHeadsView queries(const float* qkv, std::int64_t count) const {
    return {qkv, count, shape.heads, shape.width, stride()};
  }
  ConstHeadsView keys(const float* qkv, std::int64_t count) const {
    return {qkv + out_width(), count, shape.kv_heads, shape.width, stride()};
  }
  ConstHeadsView values(const float* qkv, std::int64_t count) const {
    return {qkv + out_width() + std::int64_t{shape.kv_heads} * shape.width, count, shape.kv_heads,
            shape.width, stride()};
  }
  std::int32_t page_count() const { return page_count_; }
  // What key or value j of a sequence is, [K, D].
  const float* token(std::size_t sequence, std::int32_t j) const {
    return tokens_[sequence].data() + j * stride();
  }
  std::int32_t page(std::size_t sequence, std::int32_t j) const {
    return tables_[sequence][static_cast<std::size_t>(j / kPageTokens)];
  }

  const AttentionShape shape;

 private:
  static std::int32_t pages_of(std::int32_t tokens) {
    return (tokens + kPageTokens - 1) / kPageTokens;
  }

  std::vector<Floats> tokens_;  // [T, stride] of each sequence
  std::vector<std::vector<std::int32_t>> tables_;
  std::int32_t page_count_ = 0;
};

// The pages on the device. Recycled pages hold anything: what was not written must never be read
// into a result.
class DevicePages {
 public:
  DevicePages(const AttentionCase& host, const DeviceCase& device)
      : host_(host),
        device_(device),
        memory_(device.upload(
            Floats(static_cast<std::size_t>(page_floats() * host.page_count()), kPoison))) {}

  // One pass: its keys and values into pages, and its attention if `attend`.
  AttentionResult run(const AttentionCase::Rows& rows, bool padded, bool attend = true) const {
    if (rows.tokens.empty()) return {};
    cuda::CudaPassIndex index(device_.context(), padded);
    index.assign(rows.tokens, rows.positions, rows.sequences);
    const std::int64_t count = index.rows();
    Floats qkv = rows.qkv;
    qkv.resize(static_cast<std::size_t>(count * host_.stride()), kPoison);
    const auto on_device = device_.upload(qkv);
    cuda::write_kv(device_.context(), host_.keys(on_device.data(), count),
                   host_.values(on_device.data(), count), index.pass(), pages(),
                   AttentionCase::kLayer);
    if (!attend) return {};
    const auto out =
        device_.upload(Floats(static_cast<std::size_t>(count * host_.out_width()), kUntouched));
    const auto statistics =
        device_.upload(Floats(static_cast<std::size_t>(count * host_.shape.heads * 2), kUntouched));
    cuda::attention(device_.context(), host_.queries(on_device.data(), count), index.pass(),
                    pages(), AttentionCase::kLayer, host_.scale(), out.data(), statistics.data());
    return {out.download(), statistics.download()};
  }

  // The past of the chosen sequences, then their new rows.
  AttentionResult run(std::span<const std::size_t> chosen, bool padded) const {
    run(host_.past_rows(chosen), false, false);
    return run(host_.new_rows(chosen), padded);
  }

  Floats download() const { return memory_.download(); }
  std::int64_t page_floats() const {
    const std::int64_t numbers = std::int64_t{2} * AttentionCase::kLayers * host_.shape.kv_heads *
                                 host_.shape.width * kPageTokens;
    return device_.compute() == ComputeType::bf16 ? numbers / 2 : numbers;
  }
  KvPages pages() const {
    return {memory_.data(), AttentionCase::kLayers, host_.shape.kv_heads, host_.shape.width,
            page_floats()};
  }

 private:
  // All ones: no number as a float, and none as two bf16.
  static inline const float kPoison = cuda::bits_to_float(0xffffffff);

  const AttentionCase& host_;
  const DeviceCase& device_;
  DeviceArray<float> memory_;
};

}  // namespace hindsearch::testing
