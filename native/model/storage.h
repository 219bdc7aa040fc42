// Number formats of checkpoint files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hindsearch {

enum class StorageType { f32, f16, bf16 };

std::size_t storage_bytes(StorageType type);  // of one number
const char* storage_name(StorageType type);   // as in safetensors: "F32", "F16", "BF16"

// Little-endian numbers to float32, exactly.
void read_numbers(StorageType type, const std::byte* from, std::span<float> to);
// Rounds to nearest even. Returns the index of the first finite number that the format cannot hold,
// or -1.
std::int64_t write_numbers(StorageType type, std::span<const float> from, std::byte* to);

}  // namespace hindsearch
