// Tables for the rotary position embedding (Su et al. 2021, arXiv:2104.09864).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/config.h"

namespace hindsearch {

// D / 2 angular frequencies, with the Llama-3 scaling if the config asks for it: long waves are
// slowed down by `factor`, short ones left alone, those between interpolated.
std::vector<float> rope_frequencies(const ModelConfig& config);

// cos and sin of position * frequency, [positions, D / 2] on the device. Grows on demand, up to the
// model's longest sequence.
class RopeTable {
 public:
  explicit RopeTable(const ModelConfig& config);
  // Makes the table cover positions 0 .. positions - 1.
  void reserve(Backend& backend, std::int32_t positions);
  const float* cosines() const { return cosines_->data(); }
  const float* sines() const { return sines_->data(); }
  std::size_t bytes() const;

 private:
  std::vector<float> frequencies_;
  std::int32_t max_positions_;
  std::int32_t positions_ = 0;
  std::unique_ptr<Buffer> cosines_, sines_;
};

}  // namespace hindsearch
