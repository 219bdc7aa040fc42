#include "native/model/weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "native/core/random.h"
#include "native/core/thread_pool.h"

namespace hindsearch {
namespace {

// Numbers drawn by one task.
constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kBlocksAtOnce = 256;

// FNV-1a. The key of a parameter is its name and not its number, so that a model with and one
// without, say, biases start from the same matrices.
std::uint64_t hash(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

// Draws [first, first + n) of a parameter; first is even. Box-Muller, in float64: 32-bit uniforms
// in (0, 1) reach 6.7 standard deviations.
void draw_block(std::uint64_t seed, std::uint64_t parameter, std::int64_t first, std::int64_t n,
                double standard_deviation, float* out) {
  for (std::int64_t i = 0; i < n; i += 2) {
    const auto bits = philox4x32(seed, static_cast<std::uint64_t>((first + i) / 2), parameter);
    const double u = (bits[0] + 0.5) * 0x1p-32;
    const double angle = 2 * std::numbers::pi * (bits[1] * 0x1p-32);
    const double radius = standard_deviation * std::sqrt(-2 * std::log(u));
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < n) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void draw_matrix(Backend& backend, const Parameter& parameter, std::uint64_t seed,
                 float standard_deviation, float* arena) {
  const std::uint64_t key = hash(parameter.name);
  std::vector<float> staging(
      static_cast<std::size_t>(std::min(parameter.size, kBlock * kBlocksAtOnce)));
  for (std::int64_t done = 0; done < parameter.size; done += kBlock * kBlocksAtOnce) {
    const std::int64_t n = std::min(kBlock * kBlocksAtOnce, parameter.size - done);
    parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t block) {
      const std::int64_t begin = block * kBlock;
      draw_block(seed, key, done + begin, std::min(kBlock, n - begin), standard_deviation,
                 staging.data() + begin);
    });
    backend.upload(staging.data(), arena + parameter.offset + done, n);
  }
}

void pack_into(std::unique_ptr<PackedMatrix>& packed, Backend& backend, const float* weight,
               std::int64_t n, std::int64_t k) {
  if (packed) {
    backend.repack(*packed, weight);
  } else {
    packed = backend.pack(weight, n, k);
  }
}

// weight[N, K] of its packed form: a product with the identity gives it exactly as it was rounded.
void unpack_into(Backend& backend, const PackedMatrix& packed, float* weight) {
  constexpr std::int64_t kRows = 256;
  const std::int64_t n = packed.rows(), k = packed.columns();
  const auto identity = backend.scratch(kRows * k), product = backend.scratch(kRows * n);
  std::vector<float> one(static_cast<std::size_t>(kRows * k)),
      columns(static_cast<std::size_t>(kRows * n)), matrix(static_cast<std::size_t>(n * k));
  for (std::int64_t first = 0; first < k; first += kRows) {
    const std::int64_t rows = std::min(kRows, k - first);
    std::fill(one.begin(), one.end(), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) one[static_cast<std::size_t>(r * k + first + r)] = 1;
    backend.upload(one.data(), identity->data(), rows * k);
    backend.linear(as_operand(identity->data(), packed.columns()), rows, packed, {},
                   product->data(), nullptr);
    backend.download(product->data(), columns.data(), rows * n);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < n; ++i) {
        matrix[static_cast<std::size_t>(i * k + first + r)] =
            columns[static_cast<std::size_t>(r * n + i)];
      }
    }
  }
  backend.upload(matrix.data(), weight, n * k);
}

}  // namespace

std::shared_ptr<Weights> Weights::allocate(Backend& backend, const ParameterLayout& layout) {
  auto weights = std::make_shared<Weights>();
  weights->arena = backend.allocate(layout.size());
  return weights;
}

std::shared_ptr<Weights> Weights::split(Backend& backend, const ModelConfig& config,
                                        const ParameterLayout& layout) {
  const auto copy = [&](std::int64_t floats) {
    auto buffer = backend.allocate(floats);
    backend.copy(arena->data(), buffer->data(), floats);
    return buffer;
  };
  // What can run out of memory comes before any change.
  auto own = std::make_shared<Weights>();
  if (backend.frozen_matrices_packed()) {
    auto unpacked = copy(layout.unpacked_size());
    own->pack_from(arena->data(), backend, config, layout);
    own->arena = std::move(arena);
    arena = std::move(unpacked);
  } else {
    own->arena = copy(arena->size());
    own->pack(backend, config, layout);
  }
  return own;
}

std::unique_ptr<Buffer> Weights::unpack(Backend& backend, const ParameterLayout& layout) const {
  auto whole = backend.allocate(layout.size());
  backend.copy(arena->data(), whole->data(), arena->size());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerOffsets& at = layout.layer(static_cast<std::int32_t>(l));
    unpack_into(backend, *layers[l].qkv, whole->data() + at.qkv);
    unpack_into(backend, *layers[l].o, whole->data() + at.o);
    unpack_into(backend, *layers[l].gate_up, whole->data() + at.gate_up);
    unpack_into(backend, *layers[l].down, whole->data() + at.down);
  }
  return whole;
}

void Weights::pack(Backend& backend, const ModelConfig& config, const ParameterLayout& layout) {
  pack_from(arena->data(), backend, config, layout);
}

void Weights::pack_from(const float* w, Backend& backend, const ModelConfig& config,
                        const ParameterLayout& layout) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t key = std::int64_t{config.kv_heads} * config.head_dim;
  const std::int64_t intermediate = config.intermediate;
  layers.resize(static_cast<std::size_t>(config.layers));
  for (std::int32_t l = 0; l < config.layers; ++l) {
    const LayerOffsets& at = layout.layer(l);
    PackedLayer& layer = layers[static_cast<std::size_t>(l)];
    pack_into(layer.qkv, backend, w + at.qkv, query + 2 * key, hidden);
    pack_into(layer.o, backend, w + at.o, hidden, query);
    pack_into(layer.gate_up, backend, w + at.gate_up, 2 * intermediate, hidden);
    pack_into(layer.down, backend, w + at.down, hidden, intermediate);
  }
  pack_into(head, backend, w + layout.head(), config.token_limit, hidden);
}

std::size_t Weights::bytes() const {
  std::size_t total = static_cast<std::size_t>(arena->size()) * sizeof(float);
  for (const PackedLayer& layer : layers) {
    total += layer.qkv->bytes() + layer.o->bytes() + layer.gate_up->bytes() + layer.down->bytes();
  }
  return total + (head ? head->bytes() : 0);
}

void draw_weights(Backend& backend, const ParameterLayout& layout, std::uint64_t seed,
                  float standard_deviation, float* arena) {
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.shape.size() == 2) {
      draw_matrix(backend, parameter, seed, standard_deviation, arena);
    } else {
      const bool norm = parameter.name.ends_with("norm.weight");
      const std::vector<float> values(static_cast<std::size_t>(parameter.size), norm ? 1.0f : 0.0f);
      backend.upload(values.data(), arena + parameter.offset, parameter.size);
    }
  }
}

}  // namespace hindsearch
