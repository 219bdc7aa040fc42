#include "native/core/random.h"

#include <array>
#include <cstdint>

#include "native/test/testing.h"

namespace hindsearch {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that come with the generator's reference implementation (Random123, philox4x32
// 10).
TEST(philox_known_answers) {
  CHECK((philox4x32(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  CHECK((philox4x32(kOnes, kOnes, kOnes) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((philox4x32(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
         Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(uniform_is_even_and_below_one) {
  constexpr int kCount = 100000, kBins = 10;
  std::array<int, kBins> bins{};
  double sum = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = uniform(5, 17, i);
    CHECK(x >= 0 && x < 1);
    ++bins[static_cast<std::size_t>(x * kBins)];
    sum += x;
  }
  CHECK_NEAR(sum / kCount, 0.5, 0.005);
  for (const int bin : bins) CHECK_NEAR(bin, kCount / kBins, 400);
  CHECK(uniform(5, 17, 3) == uniform(5, 17, 3));
  CHECK(uniform(5, 17, 3) != uniform(5, 18, 3));
  CHECK(uniform(5, 17, 3) != uniform(6, 17, 3));
}

}  // namespace
}  // namespace hindsearch
