#include "bench/native/peak.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "bench/native/measure.h"
#include "native/core/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hindsearch {
namespace {

constexpr int kSteps = 200'000;
constexpr std::size_t kChunk = std::size_t{1} << 20;     // of a task that reads
constexpr std::size_t kHugePage = std::size_t{1} << 21;  // of every common system

// Chains of multiply-adds that do not depend on each other: enough to hide the latency of any
// current core, few enough to stay in registers.
struct Burn {
  void (*run)();
  double flop;  // of one call
};

// Makes the compiler believe that `value` is used and changed here, at no cost.
#define HINDSEARCH_OPAQUE(value, constraint) asm volatile("" : "+" constraint(value))

#if defined(__x86_64__)
constexpr int kChains = 24;

__attribute__((target("avx512f"))) void burn_avx512() {
  __m512 sums[kChains], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  HINDSEARCH_OPAQUE(a, "v");
  HINDSEARCH_OPAQUE(b, "v");
#pragma GCC unroll 24
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 24
    for (auto& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
#pragma GCC unroll 24
    for (auto& sum : sums) HINDSEARCH_OPAQUE(sum, "v");
  }
}

__attribute__((target("avx512f,avx512bf16"))) void burn_avx512bf16() {
  __m512 sums[kChains];
  __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f)), b = a;
  HINDSEARCH_OPAQUE(a, "v");
  HINDSEARCH_OPAQUE(b, "v");
#pragma GCC unroll 24
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 24
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, a, b);
#pragma GCC unroll 24
    for (auto& sum : sums) HINDSEARCH_OPAQUE(sum, "v");
  }
}

constexpr int kFewChains = 12;  // of 16 registers

__attribute__((target("avx2,fma"))) void burn_avx2() {
  __m256 sums[kFewChains], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  HINDSEARCH_OPAQUE(a, "x");
  HINDSEARCH_OPAQUE(b, "x");
#pragma GCC unroll 12
  for (auto& sum : sums) sum = _mm256_setzero_ps();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm256_fmadd_ps(a, b, sum);
#pragma GCC unroll 12
    for (auto& sum : sums) HINDSEARCH_OPAQUE(sum, "x");
  }
}

void burn_portable() {
  __m128 sums[kFewChains], a = _mm_set1_ps(0.5f), b = _mm_set1_ps(0.25f);
#pragma GCC unroll 12
  for (auto& sum : sums) sum = _mm_setzero_ps();
  for (int step = 0; step < kSteps; ++step) {
    HINDSEARCH_OPAQUE(a, "x");
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm_add_ps(sum, _mm_mul_ps(sum, b));
#pragma GCC unroll 12
    for (auto& sum : sums) HINDSEARCH_OPAQUE(sum, "x");
  }
}

Burn burn(ComputeType compute) {
  const std::string set = instruction_set();
  if (set == "avx512-bf16" && compute == ComputeType::bf16) {
    return {burn_avx512bf16, 64.0 * kChains * kSteps};
  }
  if (set.starts_with("avx512")) return {burn_avx512, 32.0 * kChains * kSteps};
  if (set == "avx2") return {burn_avx2, 16.0 * kFewChains * kSteps};
  return {burn_portable, 8.0 * kFewChains * kSteps};
}

#elif defined(__aarch64__)
constexpr int kChains = 24;

void burn_neon() {
  float32x4_t sums[kChains], a = vdupq_n_f32(0.5f), b = vdupq_n_f32(0.25f);
  HINDSEARCH_OPAQUE(a, "w");
  HINDSEARCH_OPAQUE(b, "w");
#pragma GCC unroll 24
  for (auto& sum : sums) sum = vdupq_n_f32(0);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 24
    for (auto& sum : sums) sum = vfmaq_f32(sum, a, b);
#pragma GCC unroll 24
    for (auto& sum : sums) HINDSEARCH_OPAQUE(sum, "w");
  }
}

Burn burn(ComputeType) { return {burn_neon, 8.0 * kChains * kSteps}; }
#else
#error "The peak of this architecture is not known; write its loop above."
#endif

// With the widest loads that there are, whatever instruction set the engine was told to use.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void read_chunk(const char* data) {
  using Line = unsigned long long __attribute__((vector_size(64)));
  const auto* lines = reinterpret_cast<const Line*>(data);
  Line a = {}, b = {}, c = {}, d = {};
  for (std::size_t i = 0; i < kChunk / sizeof(Line); i += 4) {
    a |= lines[i];
    b |= lines[i + 1];
    c |= lines[i + 2];
    d |= lines[i + 3];
  }
  a |= b | c | d;
  HINDSEARCH_OPAQUE(a, "m");
}

// What the system says about a cache, in bytes; 0 if there is no such cache.
std::size_t cache_bytes(int index) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
  std::size_t kibibytes = 0;
  return file >> kibibytes ? kibibytes << 10 : 0;
}

}  // namespace

double register_peak(ComputeType compute, double seconds) {
  const Burn work = burn(compute);
  const int threads = thread_count();
  const auto body = [&](int) { parallel_for(threads, [&](std::int64_t) { work.run(); }); };
  return threads * work.flop / time_calls(body, seconds, 10).fast;
}

Reader::Reader(std::size_t bytes)
    : chunks_(static_cast<std::int64_t>(bytes / kHugePage * (kHugePage / kChunk))),
      memory_(static_cast<char*>(std::aligned_alloc(kHugePage, bytes / kHugePage * kHugePage))) {
  if (!memory_) throw std::bad_alloc();
#if defined(__linux__)
  // The limit must not be that of the page tables.
  madvise(memory_.get(), bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  std::memset(memory_.get(), 1, bytes / kHugePage * kHugePage);
}

double Reader::bytes_per_second() const {
  const auto read = [&](std::int64_t chunk) {
    read_chunk(memory_.get() + chunk * static_cast<std::int64_t>(kChunk));
  };
  const auto pass = [&](int) { parallel_for(chunks_, read); };
  return static_cast<double>(chunks_) * kChunk / time_calls(pass, 0.05).fast;
}

void Reader::Free::operator()(char* memory) const { std::free(memory); }

double handover_seconds() {
  if (thread_count() < 2) return 0;
  constexpr int kTurns = 20000;
  std::atomic<int> turn{0};
  const auto body = [&](int) {
    turn = 0;
    parallel_for(2, [&](std::int64_t player) {
      for (int mine = static_cast<int>(player); mine < kTurns; mine += 2) {
        while (turn.load(std::memory_order_acquire) != mine) {
        }
        turn.store(mine + 1, std::memory_order_release);
      }
    });
  };
  return time_calls(body, 0.02).median / kTurns;
}

std::size_t last_level_cache() {
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) largest = std::max(largest, cache_bytes(index));
  return largest > 0 ? largest : std::size_t{32} << 20;
}

}  // namespace hindsearch
