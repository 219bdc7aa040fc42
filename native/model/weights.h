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
  // ParameterLayout::size() floats, or unpacked_size() of them once the rest is in packed form alone.
  std::unique_ptr<Buffer> arena;
  std::vector<PackedLayer> layers;
  std::unique_ptr<PackedMatrix> head;  // the first token_limit rows of the output embedding

  // All zero, not packed.
  static std::shared_ptr<Weights> allocate(Backend& backend, const ParameterLayout& layout);
  // The same weights, with nothing shared, for one that goes on training while these stay as they are.
  // Where the backend keeps frozen matrices packed, the arena moves over and these keep the part of it
  // that is read unpacked.
  std::shared_ptr<Weights> split(Backend& backend, const ModelConfig& config,
                                 const ParameterLayout& layout);
  // A whole arena again, with the matrices as they were packed.
  std::unique_ptr<Buffer> unpack(Backend& backend, const ParameterLayout& layout) const;
  // Brings the packed matrices up to date with the arena.
  void pack(Backend& backend, const ModelConfig& config, const ParameterLayout& layout);
  std::size_t bytes() const;

 private:
  void pack_from(const float* w, Backend& backend, const ModelConfig& config,
                 const ParameterLayout& layout);
};

// Fills the arena: norms 1, biases 0, matrices N(0, standard_deviation^2). Entry i of a parameter
// is a function of the seed, the parameter's name and i.
void draw_weights(Backend& backend, const ParameterLayout& layout, std::uint64_t seed,
                  float standard_deviation, float* arena);

}  // namespace hindsearch
