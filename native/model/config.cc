#include "native/model/config.h"

#include <cmath>
#include <limits>
#include <string>

#include "native/core/error.h"

namespace hindsearch {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(code::kInvalidArgument, "model config: " + message);
}

void check_positive(const char* field, std::int64_t value) {
  if (value <= 0)
    refuse(std::string(field) + " is " + std::to_string(value) + ", expected 1 or more");
}

void check_positive(const char* field, double value) {
  if (!(std::isfinite(value) && value > 0)) {
    refuse(std::string(field) + " is " + std::to_string(value) +
           ", expected a finite number above 0");
  }
}

void check_rope_scaling(const RopeScaling& scaling) {
  if (!(std::isfinite(scaling.factor) && scaling.factor >= 1)) {
    refuse("rope_scaling.factor is " + std::to_string(scaling.factor) + ", expected 1 or more");
  }
  if (scaling.factor == 1) return;
  check_positive("rope_scaling.low_frequency_factor", scaling.low_frequency_factor);
  check_positive("rope_scaling.high_frequency_factor", scaling.high_frequency_factor);
  check_positive("rope_scaling.original_positions", scaling.original_positions);
  if (!(scaling.low_frequency_factor < scaling.high_frequency_factor)) {
    refuse("rope_scaling.low_frequency_factor is " + std::to_string(scaling.low_frequency_factor) +
           ", expected less than high_frequency_factor, " +
           std::to_string(scaling.high_frequency_factor));
  }
}

// Refuses when the sum of products that make up the parameters does not fit. Long double holds
// every product of two int32 exactly and the total to 64 bits; a limit far below 2^63 does the
// rest.
void check_size(const ModelConfig& c) {
  const auto product = [](std::int64_t a, std::int64_t b) {
    return static_cast<long double>(a) * static_cast<long double>(b);
  };
  const std::int64_t query = std::int64_t{c.heads} * c.head_dim;
  const std::int64_t key = std::int64_t{c.kv_heads} * c.head_dim;
  constexpr std::int64_t kMaxWidth = std::numeric_limits<std::int32_t>::max() / 4;
  if (query + 2 * key > kMaxWidth) {
    refuse("heads * head_dim is " + std::to_string(query) + ", too wide");
  }
  if (c.hidden > kMaxWidth) refuse("hidden is " + std::to_string(c.hidden) + ", too wide");
  if (c.intermediate > kMaxWidth) {
    refuse("intermediate is " + std::to_string(c.intermediate) + ", too wide");
  }
  const long double layer = product(c.hidden, query + 2 * key) + product(c.hidden, query) +
                            product(c.hidden, 3 * std::int64_t{c.intermediate}) +
                            static_cast<long double>(2) * c.hidden + query + 2 * key +
                            2 * c.head_dim;
  const long double total =
      layer * c.layers + 2 * product(c.hidden, c.vocabulary) + static_cast<long double>(c.hidden);
  constexpr long double kMaxParameters = 1e15L;
  if (total > kMaxParameters) {
    refuse("hidden, layers, intermediate and vocabulary make more than 1e15 parameters");
  }
}

}  // namespace

void ModelConfig::validate() const {
  check_positive("hidden", std::int64_t{hidden});
  check_positive("layers", std::int64_t{layers});
  check_positive("heads", std::int64_t{heads});
  check_positive("kv_heads", std::int64_t{kv_heads});
  check_positive("head_dim", std::int64_t{head_dim});
  check_positive("intermediate", std::int64_t{intermediate});
  check_positive("vocabulary", std::int64_t{vocabulary});
  check_positive("token_limit", std::int64_t{token_limit});
  check_positive("max_positions", std::int64_t{max_positions});
  if (heads % kv_heads != 0) {
    refuse("kv_heads is " + std::to_string(kv_heads) + ", expected a divisor of heads, " +
           std::to_string(heads));
  }
  if (head_dim % 2 != 0) {
    refuse("head_dim is " + std::to_string(head_dim) +
           ", expected an even number: rotary embeddings turn pairs");
  }
  if (token_limit > vocabulary) {
    refuse("token_limit is " + std::to_string(token_limit) + ", expected at most vocabulary, " +
           std::to_string(vocabulary));
  }
  check_positive("rms_epsilon", double{rms_epsilon});
  check_positive("rope_theta", rope_theta);
  check_rope_scaling(rope_scaling);
  check_size(*this);
}

}  // namespace hindsearch
