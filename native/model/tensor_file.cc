#include "native/model/tensor_file.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "native/core/error.h"
#include "native/model/file.h"

namespace hindsearch {
namespace {

// Numbers moved at a time: large enough for the disk, small enough to be nothing beside the model.
constexpr std::int64_t kChunk = std::int64_t{1} << 20;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(code::kInvalidCheckpoint, message);
}

std::string to_string(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

const Parameter& check_tensor(const ParameterLayout& layout, const TensorSource& source,
                              std::uint64_t file_size) {
  const Parameter* parameter = layout.find(source.name);
  if (!parameter) {
    refuse("tensor " + source.name + " in " + source.path + " is no parameter of this model");
  }
  if (source.shape != parameter->shape) {
    refuse("tensor " + source.name + " in " + source.path + " has shape " +
           to_string(source.shape) + ", expected " + to_string(parameter->shape));
  }
  const std::uint64_t expected =
      static_cast<std::uint64_t>(parameter->size) * storage_bytes(source.type);
  if (source.bytes != expected) {
    refuse("tensor " + source.name + " in " + source.path + " has " + std::to_string(source.bytes) +
           " bytes, expected " + std::to_string(expected) + " for " + to_string(parameter->shape) +
           " of " + storage_name(source.type));
  }
  if (source.offset > file_size || file_size - source.offset < source.bytes) {
    refuse("tensor " + source.name + " needs bytes " + std::to_string(source.offset) + " to " +
           std::to_string(source.offset + source.bytes) + " of " + source.path + ", which has " +
           std::to_string(file_size) + "; the file is incomplete");
  }
  return *parameter;
}

void check_complete(const ParameterLayout& layout, const std::vector<TensorSource>& sources) {
  std::set<std::string> names;
  for (const TensorSource& source : sources) {
    if (!names.insert(source.name).second) refuse("tensor " + source.name + " is given twice");
  }
  for (const Parameter& parameter : layout.parameters()) {
    if (!names.contains(parameter.name)) refuse("tensor " + parameter.name + " is missing");
  }
}

void write_tensor(File& file, const TensorData& tensor, Backend& backend,
                  const CancelFlag* cancel) {
  std::vector<float> numbers;
  std::vector<std::byte> bytes;
  for (std::int64_t done = 0; done < tensor.size; done += kChunk) {
    check_cancelled(cancel, "save");
    const auto n = static_cast<std::size_t>(std::min(kChunk, tensor.size - done));
    numbers.assign(n, 0);
    bytes.resize(n * storage_bytes(tensor.type));
    if (tensor.data) {
      backend.download(tensor.data + done, numbers.data(), static_cast<std::int64_t>(n));
    }
    const std::int64_t lost = write_numbers(tensor.type, numbers, bytes.data());
    if (lost >= 0) {
      throw Error(code::kInvalidArgument,
                  "save: entry " + std::to_string(done + lost) + " of " + tensor.name + " is " +
                      std::to_string(numbers[static_cast<std::size_t>(lost)]) + ", too large for " +
                      storage_name(tensor.type) + "; save as F32");
    }
    file.write(bytes.data(), bytes.size());
  }
}

}  // namespace

void read_tensors(const ParameterLayout& layout, const std::vector<TensorSource>& sources,
                  Backend& backend, float* arena, const CancelFlag* cancel) {
  check_complete(layout, sources);
  std::map<std::string, File> files;
  // All checks come before the first byte is read: a load that fails, fails at once.
  for (const TensorSource& source : sources) {
    auto file = files.find(source.path);
    if (file == files.end()) file = files.emplace(source.path, File::open(source.path)).first;
    check_tensor(layout, source, file->second.size());
  }
  std::vector<std::byte> bytes;
  std::vector<float> numbers;
  for (const TensorSource& source : sources) {
    const Parameter& parameter = *layout.find(source.name);
    const File& file = files.at(source.path);
    const std::size_t width = storage_bytes(source.type);
    for (std::int64_t done = 0; done < parameter.size; done += kChunk) {
      check_cancelled(cancel, "load");
      const auto n = static_cast<std::size_t>(std::min(kChunk, parameter.size - done));
      bytes.resize(n * width);
      numbers.resize(n);
      file.read(source.offset + static_cast<std::uint64_t>(done) * width, bytes.data(),
                bytes.size());
      read_numbers(source.type, bytes.data(), numbers);
      backend.upload(numbers.data(), arena + parameter.offset + done, static_cast<std::int64_t>(n));
    }
  }
}

void write_tensors(const std::string& path, const std::string& header,
                   const std::vector<TensorData>& tensors, Backend& backend,
                   const CancelFlag* cancel) {
  File file = File::create(path);
  try {
    const std::uint64_t length = header.size();
    file.write(&length, sizeof(length));
    file.write(header.data(), header.size());
    for (const TensorData& tensor : tensors) write_tensor(file, tensor, backend, cancel);
    file.sync_and_close();
  } catch (...) {
    if (file.is_regular()) std::remove(path.c_str());  // never a device such as /dev/full
    throw;
  }
}

}  // namespace hindsearch
