// What the op tests share: every backend this machine can run, and seeded numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "native/backend/cpu/cpu_backend.h"
#include "native/backend/cpu/isa.h"
#include "native/core/random.h"
#include "native/core/thread_pool.h"
#include "native/test/testing.h"

namespace hindsearch::testing {

using Floats = std::vector<float>;

// Roughly normal, mean 0, deviation `scale`.
inline Floats normal(std::size_t count, std::uint64_t seed, float scale = 1) {
  // Kept: the tests of an op ask for the same numbers for each shape and compute type, and drawing
  // them took longer than the ops.
  thread_local std::map<std::uint64_t, Floats> drawn;
  Floats& all = drawn[seed];
  for (std::size_t i = all.size(); i < count; ++i) {
    double sum = -6;
    for (std::uint64_t part = 0; part < 12; ++part) sum += uniform(seed, i, part);
    all.push_back(static_cast<float>(sum));
  }
  Floats out(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  for (float& x : out) x *= scale;
  return out;
}

inline std::vector<Token> tokens_below(std::size_t count, std::int64_t bound, std::uint64_t seed) {
  std::vector<Token> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<Token>(uniform(seed, i, 0) * static_cast<double>(bound));
  }
  return out;
}

// Runs body for every instruction set and compute type; a failure says which.
inline void for_backends(const std::function<void(Backend&)>& body) {
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
      try {
        body(*cpu::make_cpu_backend(compute, *kernels));
      } catch (const std::exception& error) {
        throw Failure(std::string(kernels->name) +
                      (compute == ComputeType::f32 ? " f32: " : " bf16: ") + error.what());
      }
    }
  }
}

// The same with f32 only, for ops that do not depend on the compute type.
inline void for_instruction_sets(const std::function<void(Backend&)>& body) {
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    try {
      body(*cpu::make_cpu_backend(ComputeType::f32, *kernels));
    } catch (const std::exception& error) {
      throw Failure(std::string(kernels->name) + ": " + error.what());
    }
  }
}

// Restores the number of threads.
class Threads {
 public:
  explicit Threads(int threads) : before_(thread_count()) { set_thread_count(threads); }
  ~Threads() { set_thread_count(before_); }

 private:
  int before_;
};

inline bool same_bits(const float* a, const float* b, std::size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}
inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

// Largest |actual - expected| relative to the largest |expected|.
inline double relative_error(const float* actual, const double* expected, std::size_t n) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    error = difference <= error ? error : difference;  // NaN stays
    scale = std::max(scale, std::abs(expected[i]));
  }
  return scale > 0 ? error / scale : error;
}
inline double relative_error(const Floats& actual, const std::vector<double>& expected) {
  CHECK_EQ(actual.size(), expected.size());
  return relative_error(actual.data(), expected.data(), actual.size());
}

}  // namespace hindsearch::testing
