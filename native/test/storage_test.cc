#include "native/model/storage.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch {
namespace {

std::uint16_t write(StorageType type, float x) {
  std::uint16_t bits;
  write_numbers(type, {&x, 1}, reinterpret_cast<std::byte*>(&bits));
  return bits;
}
float read(StorageType type, std::uint16_t bits) {
  float x;
  read_numbers(type, reinterpret_cast<const std::byte*>(&bits), {&x, 1});
  return x;
}

// Value of a bit pattern, straight from the definition of the format.
double value(std::uint16_t bits, int fraction_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}

void check_all_patterns(StorageType type, int fraction_bits, int exponent_bits) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float x = read(type, pattern);
    const double expected = value(pattern, fraction_bits, exponent_bits);
    if (std::isnan(expected)) {
      CHECK(std::isnan(x));
      CHECK(std::isnan(read(type, write(type, x))));
      continue;
    }
    CHECK_EQ(double{x}, expected);
    CHECK_EQ(write(type, x), pattern);
    if (std::isinf(x)) continue;
    // Just below, at and just above the middle between this number and the next larger one.
    const double next = value(static_cast<std::uint16_t>(bits + 1), fraction_bits, exponent_bits);
    if (!std::isfinite(next)) continue;
    const auto middle = static_cast<float>((expected + next) / 2);
    const auto away = static_cast<std::uint16_t>(bits + 1);
    CHECK_EQ(write(type, std::nextafter(middle, x)), pattern);
    CHECK_EQ(write(type, middle), bits % 2 == 0 ? pattern : away);
    CHECK_EQ(write(type, std::nextafter(middle, static_cast<float>(next))), away);
  }
}

}  // namespace

TEST(f16_is_exact_and_rounds_to_even) { check_all_patterns(StorageType::f16, 10, 5); }
TEST(bf16_is_exact_and_rounds_to_even) { check_all_patterns(StorageType::bf16, 7, 8); }

TEST(numbers_too_large_for_the_format_are_reported) {
  const std::vector<float> x = {1, INFINITY, 65519.99f, -65520, 1e6f};
  std::vector<std::byte> bytes(2 * x.size());
  CHECK_EQ(write_numbers(StorageType::f16, x, bytes.data()), 3);
  CHECK_EQ(write(StorageType::f16, 65519.99f), 0x7bff);
  const std::vector<float> huge = {std::numeric_limits<float>::max()};
  CHECK_EQ(write_numbers(StorageType::bf16, huge, bytes.data()), 0);
  CHECK_EQ(write_numbers(StorageType::f32, huge, bytes.data()), -1);
}

}  // namespace hindsearch
