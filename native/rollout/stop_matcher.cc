#include "native/rollout/stop_matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace hindsearch {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

StopMatch StopMatcher::push(std::span<const std::uint8_t> bytes) {
  if (stops_.empty()) return {};
  if (bytes.empty()) {
    tail_.clear();
    return {};
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    tail_.push_back(static_cast<char>(bytes[i]));
    const std::int32_t index = longest_at_end();
    if (index >= 0) return {index, static_cast<std::int32_t>(bytes.size() - 1 - i)};
  }
  if (tail_.size() >= longest_) tail_.erase(0, tail_.size() - (longest_ - 1));
  return {};
}

std::int32_t StopMatcher::longest_at_end() const {
  std::int32_t best = -1;
  std::size_t best_size = 0;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    if (stop.size() > best_size && std::string_view(tail_).ends_with(stop)) {
      best = static_cast<std::int32_t>(i);
      best_size = stop.size();
    }
  }
  return best;
}

}  // namespace hindsearch
