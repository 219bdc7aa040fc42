// One sequence in flight: its tokens, its pages, and the segment it is decoding.
#pragma once

#include <cstdint>
#include <vector>

#include "native/rollout/decoder.h"
#include "native/rollout/page_pool.h"
#include "native/rollout/stop_matcher.h"

namespace hindsearch {

// waiting: for the caller. queued: for a place in the batch, or for pages. running: in the batch.
enum class Phase { waiting, queued, running };

// What a fork has in common with the sequence it came from behind the last full page, until it is
// copied.
struct PartialPage {
  Page page = -1;          // held; -1: none
  std::int32_t index = 0;  // place in the page table
  std::int32_t lanes = 0;  // how many of its lanes are common
};

struct Sequence {
  SequenceId id = 0;
  RandomKey key;
  std::int32_t reserve = 0;  // tokens it may hold at most
  std::vector<Token> tokens;
  // The text last supplied by the caller is [text_start, boundary); the segment begins at boundary.
  std::int32_t text_start = 0;
  std::int32_t boundary = 0;

  Phase phase = Phase::waiting;
  bool admitted = false;    // holds pages for all of `reserve`
  std::vector<Page> pages;  // before admission: the full pages it shares, if any
  PartialPage partial;
  Sequence* source = nullptr;  // queued before this one; what to share pages with once it has some
  std::int32_t cached = 0;     // rows whose keys and values are there
  std::int32_t seen = 0;       // rows that ever were, for the counters

  SegmentOptions options;
  std::int32_t most_new = 0;  // tokens this segment may generate: max_new_tokens, or what is left
  StopMatcher stops;
  std::vector<float> log_probs;  // [tokens.size() - boundary]
  std::uint64_t first_version = 0, last_version = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t generated() const { return size() - boundary; }
  // Whether its last row's logits are wanted, rather than its keys and values only.
  bool decodes() const { return most_new > 0; }
};

}  // namespace hindsearch
