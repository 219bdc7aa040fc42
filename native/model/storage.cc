#include "native/model/storage.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace hindsearch {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  // Rounding could carry a NaN into infinity; a quiet NaN stays one.
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f;
  const std::uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24 is exact in float32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::uint16_t to_f16(float x) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16 & 0x8000);
  const float magnitude = std::abs(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x1p-14f) {
    // Subnormal: adding 0.5 leaves the units of 2^-24 in the last bits of the sum, rounded by the
    // adder itself. 1024 units are the smallest normal number, whose bits follow on.
    const auto sum = std::bit_cast<std::uint32_t>(magnitude + 0.5f);
    return static_cast<std::uint16_t>(sign | (sum - std::bit_cast<std::uint32_t>(0.5f)));
  }
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude) - ((127u - 15u) << 23);
  return static_cast<std::uint16_t>(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

}  // namespace

std::size_t storage_bytes(StorageType type) { return type == StorageType::f32 ? 4 : 2; }

const char* storage_name(StorageType type) {
  return type == StorageType::f32 ? "F32" : type == StorageType::f16 ? "F16" : "BF16";
}

void read_numbers(StorageType type, const std::byte* from, std::span<float> to) {
  if (type == StorageType::f32) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = type == StorageType::f16 ? from_f16(bits) : from_bf16(bits);
  }
}

std::int64_t write_numbers(StorageType type, std::span<const float> from, std::byte* to) {
  if (type == StorageType::f32) {
    std::memcpy(to, from.data(), from.size_bytes());
    return -1;
  }
  std::int64_t lost = -1;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint16_t bits = type == StorageType::f16 ? to_f16(from[i]) : to_bf16(from[i]);
    std::memcpy(to + 2 * i, &bits, 2);
    const float back = type == StorageType::f16 ? from_f16(bits) : from_bf16(bits);
    if (lost < 0 && std::isfinite(from[i]) && !std::isfinite(back))
      lost = static_cast<std::int64_t>(i);
  }
  return lost;
}

}  // namespace hindsearch
