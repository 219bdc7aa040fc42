#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#ifdef __unix__
#include <unistd.h>
#endif

#include "native/model/model.h"

namespace hindsearch::testing {

// Changes the weights of a model the way a program does: from a file. `change(name, values)` sees
// every parameter as it is.
template <class Change>
void set_weights(Model& model, Change&& change) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("hindsearch-weights-" + std::to_string(getpid()) + ".bin"))
                               .string();
  std::vector<TensorSource> sources;
  {
    std::ofstream file(path, std::ios::binary);
    std::uint64_t offset = 0;
    for (const Parameter& parameter : model.layout().parameters()) {
      std::vector<float> values = model.weight(parameter.name);
      change(parameter.name, values);
      const std::uint64_t bytes = values.size() * sizeof(float);
      file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(bytes));
      sources.push_back({parameter.name, path, offset, bytes, StorageType::f32, parameter.shape});
      offset += bytes;
    }
  }
  model.load_arena(Arena::weights, sources);
  std::filesystem::remove(path);
}

}  // namespace hindsearch::testing
