// Arguments of the model's functions, as lib/native declares them. Checked here is what
// can be said of a value by itself; whether values fit together and fit the model, the model says.
#pragma once

#include <vector>

#include "native/addon/arguments.h"
#include "native/model/model.h"

namespace hindsearch {

ModelConfig read_config(const Argument& argument);
ComputeType read_compute(const Argument& argument);
Arena read_arena(const Argument& argument);
std::vector<TensorSource> read_tensor_sources(const Argument& argument);
std::vector<TensorSink> read_tensor_sinks(const Argument& argument);
PackedSequences read_sequences(const Argument& argument);
ScoreOptions read_score_options(const Argument& argument);
Objective read_objective(const Argument& argument);
TrainOptions read_train_options(const Argument& argument);
OptimizerOptions read_optimizer_options(const Argument& argument);

}  // namespace hindsearch
