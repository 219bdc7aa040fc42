#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "native/backend/backend.h"

namespace hindsearch {

// One device buffer cut into tensors, so that a pass with a dozen of them makes one allocation. Their
// contents are undefined until written.
class Slab {
 public:
  // Asks for `floats` floats; *tensor is set by allocate().
  void add(float*& tensor, std::int64_t floats) {
    requests_.emplace_back(&tensor, size_);
    // Tensors start on cache lines.
    size_ += (floats + 15) / 16 * 16;
  }
  void allocate(Backend& backend) {
    buffer_ = backend.scratch(size_);
    for (const auto& [tensor, offset] : requests_) *tensor = buffer_->data() + offset;
    requests_.clear();
  }
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(float); }

 private:
  std::vector<std::pair<float**, std::int64_t>> requests_;
  std::int64_t size_ = 0;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace hindsearch
