// Tensors in files: reading from safetensors whose headers have been parsed elsewhere, and writing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "native/backend/backend.h"
#include "native/model/cancel.h"
#include "native/model/parameters.h"
#include "native/model/storage.h"

namespace hindsearch {

// Where the bytes of one tensor lie. The header of the file has been parsed and checked elsewhere;
// here only that the bytes exist, and fit the parameter, is checked again.
struct TensorSource {
  std::string name;
  std::string path;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
  StorageType type = StorageType::f32;
  std::vector<std::int64_t> shape;
};

// Reads every parameter of the layout into `arena`. Throws Error(INVALID_CHECKPOINT) when a
// parameter is missing, unknown, given twice, of another shape, or beyond the end of its file;
// Error(IO) when a file cannot be read; Error(ABORTED).
void read_tensors(const ParameterLayout& layout, const std::vector<TensorSource>& sources,
                  Backend& backend, float* arena, const CancelFlag* cancel);

// One tensor to write: its numbers lie at `data` on the device; null stands for zeros.
struct TensorData {
  std::string name;
  StorageType type;
  const float* data;
  std::int64_t size;
};

// Writes the length of `header` in 8 bytes, `header`, and the tensors one after the other, and
// syncs the file. Leaves no file behind when it throws: Error(IO); Error(INVALID_ARGUMENT) for a
// number that its storage type cannot hold; Error(ABORTED).
void write_tensors(const std::string& path, const std::string& header,
                   const std::vector<TensorData>& tensors, Backend& backend,
                   const CancelFlag* cancel);

}  // namespace hindsearch
