#include "native/backend/cuda/runtime/graph.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <utility>

namespace hindsearch::cuda {
namespace {

// All that kernels are given of a pass beside what they read on the device.
bool same_shape(const Pass& a, const Pass& b) {
  return a.rows == b.rows && a.sequence_count == b.sequence_count && a.tokens == b.tokens &&
         a.positions == b.positions && a.row_sequence == b.row_sequence &&
         a.sequences == b.sequences && a.pages == b.pages && a.decode_count == b.decode_count &&
         a.decode_sequences == b.decode_sequences && a.decode_chunks == b.decode_chunks &&
         a.longest_new == b.longest_new;
}

void tell(const std::exception& error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  std::fprintf(stderr,
               "hindsearch: a decode pass could not be recorded and runs without, which is slower: "
               "%s\n",
               error.what());
}

}  // namespace

void GraphCache::run(const Context& context, const Pass& pass, std::span<const void* const> key,
                     const std::function<void()>& ops) {
  if (pass.tile_count > 0) {
    ops();
    return;
  }
  Entry* const entry = find(pass, key);
  if (entry == nullptr || entry->generation != context.workspace.generation()) {
    ops();
    remember(pass, key, context.workspace.generation());
    return;
  }
  entry->used = ++uses_;
  if (entry->graph == nullptr && !entry->refused) {
    try {
      entry->graph = record(context.stream, ops);
    } catch (const std::exception& error) {
      entry->refused = true;
      tell(error);
    }
  }
  if (entry->graph == nullptr) {
    ops();
    return;
  }
  check(cudaGraphLaunch(entry->graph, context.stream), "a recorded pass");
}

GraphCache::Entry* GraphCache::find(const Pass& pass, std::span<const void* const> key) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return same_shape(e.pass, pass) && std::ranges::equal(e.key, key);
  });
  return entry == entries_.end() ? nullptr : &*entry;
}

void GraphCache::remember(const Pass& pass, std::span<const void* const> key,
                          std::uint64_t generation) {
  // Records that hold addresses of before are of no use to anybody.
  std::erase_if(entries_, [&](const Entry& e) {
    if (e.generation == generation) return false;
    if (e.graph != nullptr) cudaGraphExecDestroy(e.graph);
    return true;
  });
  if (entries_.size() == kMost) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    if (oldest->graph != nullptr) cudaGraphExecDestroy(oldest->graph);
    entries_.erase(oldest);
  }
  entries_.push_back({.pass = pass,
                      .key = {key.begin(), key.end()},
                      .generation = generation,
                      .used = ++uses_,
                      .graph = nullptr,
                      .refused = false});
}

cudaGraphExec_t GraphCache::record(cudaStream_t stream, const std::function<void()>& ops) {
  // Other threads of the process may use the runtime meanwhile.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a record");
  cudaGraph_t graph = nullptr;
  try {
    ops();
  } catch (...) {
    // Out of the recording state, whatever that says; what ops() threw says more.
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "ending a record");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "preparing a record");
  return executable;
}

void GraphCache::clear() {
  for (const Entry& entry : entries_) {
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  }
  entries_.clear();
}

std::size_t GraphCache::size() const {
  return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(),
                                                [](const Entry& e) { return e.graph != nullptr; }));
}

}  // namespace hindsearch::cuda
