// A weight matrix as cuBLAS reads it.
#pragma once

#include "native/backend/backend.h"
#include "native/backend/cuda/ops.h"
#include "native/backend/cuda/runtime/memory.h"

namespace hindsearch::cuda {

// In bf16 a copy; in f32 the weight itself, which outlives it.
class CudaMatrix final : public PackedMatrix {
 public:
  CudaMatrix(const Context& context, const float* weight, std::int64_t n, std::int64_t k)
      : n_(n), k_(k) {
    if (context.compute == ComputeType::bf16) {
      narrow_ = DeviceBytes(static_cast<std::size_t>(n * k) * sizeof(bf16));
    }
    fill(context, weight);
  }
  std::int64_t rows() const override { return n_; }
  std::int64_t columns() const override { return k_; }
  std::size_t bytes() const override { return narrow_.size(); }

  void fill(const Context& context, const float* weight) {
    wide_ = weight;
    if (narrow_.data()) to_bf16(context, weight, static_cast<bf16*>(narrow_.data()), n_ * k_);
  }
  Matrix view() const {
    return {narrow_.data() ? narrow_.data() : static_cast<const void*>(wide_), n_, k_};
  }

 private:
  std::int64_t n_, k_;
  DeviceBytes narrow_;
  const float* wide_ = nullptr;
};

}  // namespace hindsearch::cuda
