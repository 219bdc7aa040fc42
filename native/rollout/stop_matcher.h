// Finds stop strings in the bytes of generated tokens, by the stop rule of decoder.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hindsearch {

struct StopMatch {
  std::int32_t index = -1;    // of the stop string; -1: none is complete
  std::int32_t overhang = 0;  // bytes of the token behind it
};

class StopMatcher {
 public:
  StopMatcher() = default;
  // Of equal strings the first counts. The strings are not empty.
  explicit StopMatcher(std::vector<std::string> stops);

  // The bytes of the next token; none: a wall that no stop string crosses.
  StopMatch push(std::span<const std::uint8_t> bytes);

 private:
  std::int32_t longest_at_end() const;

  std::vector<std::string> stops_;
  std::size_t longest_ = 0;
  // The bytes since the last wall that may still belong to a stop string. A handful of stops needs
  // no automaton: a token has few bytes, and the last byte of a stop string seldom agrees.
  std::string tail_;
};

}  // namespace hindsearch
