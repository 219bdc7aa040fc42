// The weights of a model: float32 master copy and the packed matrices made of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/config.h"
#include "native/model/parameters.h"

namespace hindsearch {

struct PackedLayer {
  std::unique_ptr<PackedMatrix> qkv, o, gate_up, down;
};

struct Weights {
  std::unique_ptr<Buffer> arena;  // ParameterLayout::size() floats
  std::vector<PackedLayer> layers;
  std::unique_ptr<PackedMatrix> head;  // the first token_limit rows of the output embedding

  // All zero, not packed.
  static std::shared_ptr<Weights> allocate(Backend& backend, const ParameterLayout& layout);
  // The arena, not packed.
  std::shared_ptr<Weights> copy(Backend& backend) const;
  // Brings the packed matrices up to date with the arena.
  void pack(Backend& backend, const ModelConfig& config, const ParameterLayout& layout);
  std::size_t bytes() const;
};

// Fills the arena: norms 1, biases 0, matrices N(0, standard_deviation^2). Entry i of a parameter
// is a function of the seed, the parameter's name and i.
void draw_weights(Backend& backend, const ParameterLayout& layout, std::uint64_t seed,
                  float standard_deviation, float* arena);

}  // namespace hindsearch
