// Passes recorded once and played again: a step of decoding is some hundred small kernels, and to
// start them one by one takes the host longer than the device needs for them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "native/backend/cuda/pass.h"
#include "native/backend/cuda/runtime/context.h"

namespace hindsearch::cuda {

class GraphCache {
 public:
  GraphCache() = default;
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;
  ~GraphCache() { clear(); }

  // Backend::run. What ops() enqueues depends on `pass` and on `key` alone. It runs as it is the
  // first time that a key is met, so that working memory grows then, is recorded the second time
  // and played from then on. A pass with tiles is of one shape for once and always runs as it is.
  //
  // A pass that cannot be recorded runs as it is; why is told on stderr, once.
  void run(const Context& context, const Pass& pass, std::span<const void* const> key,
           const std::function<void()>& ops);

  // Forgets all.
  void clear();

  // Records held, for tests and reports.
  std::size_t size() const;

  static constexpr std::size_t kMost = 32;

 private:
  struct Entry {
    Pass pass;
    std::vector<const void*> key;
    std::uint64_t generation;  // of the workspace, whose addresses the record holds
    std::uint64_t used;
    cudaGraphExec_t graph;  // null: not recorded yet
    bool refused;           // could not be recorded
  };

  Entry* find(const Pass& pass, std::span<const void* const> key);
  void remember(const Pass& pass, std::span<const void* const> key, std::uint64_t generation);
  static cudaGraphExec_t record(cudaStream_t stream, const std::function<void()>& ops);

  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace hindsearch::cuda
