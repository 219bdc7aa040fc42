#include "native/model/model.h"

#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "native/model/state.h"

namespace hindsearch {

Network Model::State::network(std::int32_t positions) {
  rope.reserve(*backend, positions);
  return {*backend, config, layout, *weights, rope.cosines(), rope.sines()};
}

void Model::State::require_trainable(const char* call) const {
  if (frozen) {
    throw Error(
        code::kInvalidArgument,
        std::string(call) + ": this model is a frozen snapshot; train the model it was taken of");
  }
}

const Parameter& Model::State::parameter(const std::string& name) const {
  const Parameter* found = layout.find(name);
  if (!found) throw Error(code::kInvalidArgument, name + " is no parameter of this model");
  return *found;
}

std::vector<float> Model::State::download(const Buffer* arena, const Parameter& wanted) const {
  std::vector<float> values(static_cast<std::size_t>(wanted.size));
  if (arena) backend->download(arena->data() + wanted.offset, values.data(), wanted.size);
  return values;
}

const Buffer* Model::State::full_weights(std::unique_ptr<Buffer>& unpacked) const {
  if (weights->arena->size() == layout.size()) return weights->arena.get();
  unpacked = weights->unpack(*backend, layout);
  return unpacked.get();
}

void Model::State::own_weights() {
  if (weights.use_count() > 1) replace_weights(weights->split(*backend, config, layout));
}

void Model::State::replace_weights(std::shared_ptr<Weights> own) {
  decode.reset();
  weights = std::move(own);
}

float* Model::State::own_gradients() {
  if (!gradients) gradients = backend->allocate(layout.size());
  return gradients->data();
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

std::shared_ptr<Model> Model::initialize(const ModelConfig& config, ComputeType compute,
                                         std::uint64_t seed, float standard_deviation) {
  if (!(std::isfinite(standard_deviation) && standard_deviation >= 0)) {
    throw Error(code::kInvalidArgument, "initialize: standard_deviation is " +
                                            std::to_string(standard_deviation) +
                                            ", expected a finite number, 0 or more");
  }
  auto state = std::make_unique<State>(config, make_backend(compute));
  state->weights = Weights::allocate(*state->backend, state->layout);
  draw_weights(*state->backend, state->layout, seed, standard_deviation,
               state->weights->arena->data());
  state->weights->pack(*state->backend, state->config, state->layout);
  return std::shared_ptr<Model>(new Model(std::move(state)));
}

std::shared_ptr<Model> Model::load(const ModelConfig& config, ComputeType compute,
                                   const std::vector<TensorSource>& sources,
                                   const CancelFlag* cancel) {
  auto state = std::make_unique<State>(config, make_backend(compute));
  state->weights = Weights::allocate(*state->backend, state->layout);
  read_tensors(state->layout, sources, *state->backend, state->weights->arena->data(), cancel);
  state->weights->pack(*state->backend, state->config, state->layout);
  return std::shared_ptr<Model>(new Model(std::move(state)));
}

std::shared_ptr<Model> Model::snapshot() const {
  auto state = std::make_unique<State>(state_->config, state_->backend);
  state->weights = state_->weights;
  state->frozen = true;
  state->version = state_->version;
  return std::shared_ptr<Model>(new Model(std::move(state)));
}

const ModelConfig& Model::config() const { return state_->config; }
const ParameterLayout& Model::layout() const { return state_->layout; }
ComputeType Model::compute() const { return state_->backend->compute(); }
Backend& Model::backend() const { return *state_->backend; }
bool Model::frozen() const { return state_->frozen; }
std::uint64_t Model::version() const { return state_->version; }

std::size_t Model::bytes() const {
  const State& s = *state_;
  std::size_t total = s.weights->bytes() + s.optimizer.bytes() + s.rope.bytes();
  if (s.gradients) total += static_cast<std::size_t>(s.gradients->size()) * sizeof(float);
  if (s.decode) {
    total += s.decode->slab.bytes() + s.decode->tape->bytes() + s.decode->scratch->bytes();
  }
  return total;
}

double Model::gradient_norm() {
  const State& s = *state_;
  if (!s.gradients) return 0;
  return hindsearch::gradient_norm(*s.backend, s.gradients->data(), s.gradients->size());
}

void Model::zero_gradients() {
  State& s = *state_;
  if (s.gradients) s.backend->zero(s.gradients->data(), s.gradients->size());
}

OptimizerResult Model::step(const OptimizerOptions& options) {
  State& s = *state_;
  s.require_trainable("step");
  options.validate();
  const float* gradients = s.own_gradients();
  OptimizerResult result;
  result.gradient_norm = gradient_norm();
  result.skipped = !std::isfinite(result.gradient_norm);
  if (!result.skipped) {
    s.own_weights();
    s.optimizer.update(*s.backend, options, result.gradient_norm, gradients,
                       s.weights->arena->data(), s.layout.size());
    if (options.learning_rate > 0) {  // else the weights are what they were
      s.weights->pack(*s.backend, s.config, s.layout);
      ++s.version;
    }
  }
  zero_gradients();
  result.step = s.optimizer.step();
  return result;
}

std::vector<float> Model::weight(const std::string& name) const {
  const Parameter& parameter = state_->parameter(name);
  std::unique_ptr<Buffer> unpacked;
  return state_->download(state_->full_weights(unpacked), parameter);
}

std::vector<float> Model::gradient(const std::string& name) const {
  return state_->download(state_->gradients.get(), state_->parameter(name));
}

void Model::load_arena(Arena arena, const std::vector<TensorSource>& sources,
                       const CancelFlag* cancel) {
  State& s = *state_;
  s.require_trainable("load_arena");
  if (arena == Arena::weights) {
    auto weights = Weights::allocate(*s.backend, s.layout);
    read_tensors(s.layout, sources, *s.backend, weights->arena->data(), cancel);
    weights->pack(*s.backend, s.config, s.layout);
    s.replace_weights(std::move(weights));
    ++s.version;
    return;
  }
  auto moments = s.backend->allocate(s.layout.size());
  read_tensors(s.layout, sources, *s.backend, moments->data(), cancel);
  if (arena == Arena::first_moments) {
    s.optimizer.set_first_moments(std::move(moments));
  } else {
    s.optimizer.set_second_moments(std::move(moments));
  }
}

void Model::save(const std::string& path, const std::string& header,
                 const std::vector<TensorSink>& sinks, const CancelFlag* cancel) const {
  const State& s = *state_;
  std::unique_ptr<Buffer> unpacked;
  const std::array<const Buffer*, 3> arenas = {
      s.full_weights(unpacked), s.optimizer.first_moments(), s.optimizer.second_moments()};
  std::vector<TensorData> tensors;
  std::array<std::set<std::string>, 3> names;
  for (const TensorSink& sink : sinks) {
    const Parameter& parameter = s.parameter(sink.name);
    const auto which = static_cast<std::size_t>(sink.arena);
    if (!names[which].insert(sink.name).second) {
      throw Error(code::kInvalidArgument, "save: tensor " + sink.name + " is listed twice");
    }
    const Buffer* arena = arenas[which];
    tensors.push_back(
        {sink.name, sink.type, arena ? arena->data() + parameter.offset : nullptr, parameter.size});
  }
  for (const std::set<std::string>& listed : names) {
    for (const Parameter& parameter : s.layout.parameters()) {
      if (!listed.empty() && !listed.contains(parameter.name)) {
        throw Error(code::kInvalidArgument, "save: tensor " + parameter.name + " is not listed");
      }
    }
  }
  if (tensors.empty()) throw Error(code::kInvalidArgument, "save: no tensors are listed");
  write_tensors(path, header, tensors, *s.backend, cancel);
}

std::int64_t Model::optimizer_step() const { return state_->optimizer.step(); }

void Model::set_optimizer_step(std::int64_t step) {
  state_->require_trainable("set_optimizer_step");
  state_->optimizer.set_step(step);
}

}  // namespace hindsearch
