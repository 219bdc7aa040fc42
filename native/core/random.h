// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11). A draw is a function of its key and counter, so it needs no state to be saved.
#pragma once

#include <array>
#include <cstdint>

namespace hindsearch {

std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                        std::uint64_t counter_high);
// In [0, 1), 53 bits.
double uniform(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high);

}  // namespace hindsearch
