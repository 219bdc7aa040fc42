// In which order the threads of a block go.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native/test/cuda_host/host_model.h"

namespace host_model {

class Order {
 public:
  void read_environment() {
    const char* const text = std::getenv("HINDSEARCH_CUDA_ORDER");
    const std::string_view order = text == nullptr || *text == 0 ? "forward" : text;
    if (order != "forward" && order != "reverse" && order != "random") {
      throw Fault{"HINDSEARCH_CUDA_ORDER is '" + std::string(order) +
                  "'; it must be forward, reverse or random"};
    }
    reverse_ = order == "reverse";
    random_ = order == "random";
  }

  // Whether a block takes a new order after each of its barriers.
  bool changes() const { return random_; }

  // Threads by their turn; in random order anew each time, but the same in every run of a program.
  void fill(std::vector<std::uint16_t>& threads) {
    const std::size_t count = threads.size();
    for (std::size_t i = 0; i < count; ++i) {
      threads[i] = static_cast<std::uint16_t>(reverse_ ? count - 1 - i : i);
    }
    if (!random_) return;
    std::uint64_t state = ++fills_;
    for (std::size_t i = count; i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(threads[i - 1], threads[(state >> 33) % i]);
    }
  }

 private:
  bool reverse_ = false;
  bool random_ = false;
  std::uint64_t fills_ = 0;
};

}  // namespace host_model
