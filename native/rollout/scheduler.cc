#include "native/rollout/scheduler.h"

#include <algorithm>

namespace hindsearch {

void DecodeBatch::clear() {
  tokens.clear();
  positions.clear();
  rows.clear();
  sequences.clear();
  logit_rows.clear();
  sampled.clear();
}

Scheduler::Scheduler(PagePool& pool, std::int32_t max_batch, std::int32_t prefill_tokens)
    : pool_(pool),
      max_batch_(static_cast<std::size_t>(max_batch)),
      prefill_tokens_(prefill_tokens) {}

std::int64_t Scheduler::queued() const {
  return static_cast<std::int64_t>(resumed_.size() + submitted_.size());
}

// --- Queues ---

void Scheduler::enqueue(Sequence& sequence) {
  (sequence.admitted ? resumed_ : submitted_).push_back(&sequence);
  sequence.phase = Phase::queued;
}

void Scheduler::enqueue_fork(Sequence& child, Sequence& parent) {
  if (parent.admitted) {
    share(child, parent);
  } else if (parent.phase == Phase::queued) {
    child.source = &parent;
  }
  enqueue(child);
}

void Scheduler::withdraw(Sequence& sequence) {
  std::erase(running_, &sequence);
  std::erase(resumed_, &sequence);
  std::erase(submitted_, &sequence);
  sequence.phase = Phase::waiting;
  if (sequence.admitted) return;
  hand_over(sequence);
  drop_pages(sequence);
  sequence.source = nullptr;
}

void Scheduler::release(Sequence& sequence) {
  withdraw(sequence);
  drop_pages(sequence);
}

// `leaving` will not get pages: the forks that counted on it turn to what it counted on itself, or
// else to the first among them.
void Scheduler::hand_over(Sequence& leaving) {
  const bool has_shares = !leaving.pages.empty() || leaving.partial.page >= 0;
  Sequence* heir = leaving.source;
  for (Sequence* fork : submitted_) {
    if (fork->source != &leaving) continue;
    fork->source = has_shares ? nullptr : heir;
    if (has_shares) {
      share(*fork, leaving);
    } else if (heir == nullptr) {
      heir = fork;
    }
  }
}

// --- Pages ---

void Scheduler::share(Sequence& child, const Sequence& parent) {
  const std::int32_t common = child.boundary - 1;  // the last token is run for its logits
  const std::int32_t full = common / kPageTokens;
  child.pages.assign(parent.pages.begin(), parent.pages.begin() + full);
  for (const Page page : child.pages) pool_.hold(page);

  const std::int32_t lanes = common % kPageTokens;
  if (lanes == 0) return;
  const PartialPage& theirs = parent.partial;
  if (theirs.page >= 0 && theirs.index == full && theirs.lanes >= lanes) {
    child.partial = {theirs.page, full, lanes};  // the parent waits for it as well
  } else if (parent.admitted) {
    child.partial = {parent.pages[static_cast<std::size_t>(full)], full, lanes};
  } else {
    return;
  }
  pool_.hold(child.partial.page);
}

void Scheduler::drop_pages(Sequence& sequence) {
  for (const Page page : sequence.pages) pool_.drop(page);
  sequence.pages.clear();
  if (sequence.partial.page >= 0) pool_.drop(sequence.partial.page);
  sequence.partial = {};
  sequence.admitted = false;
  sequence.cached = 0;
}

std::int64_t Scheduler::missing_pages(const Sequence& sequence) const {
  return pages_for(sequence.reserve) - static_cast<std::int64_t>(sequence.pages.size());
}

// Nothing runs, so no page will come free by itself, and the head of the queue does not fit. Pages
// that only queued forks hold, to share them one day, must not stand in its way: they are given up
// (those forks run their text again), first the others', then its own too. False if that is no
// help.
bool Scheduler::make_room(Sequence& head) {
  std::vector<std::int32_t> queued_holders(static_cast<std::size_t>(pool_.total()));
  std::int64_t alone = 0;  // pages with queued holders only
  const auto count = [&](Page page) {
    if (++queued_holders[static_cast<std::size_t>(page)] == pool_.holders(page)) ++alone;
  };
  const auto count_all = [&](const Sequence& sequence) {
    for (const Page page : sequence.pages) count(page);
    if (sequence.partial.page >= 0) count(sequence.partial.page);
  };
  for (const Sequence* sequence : submitted_) {
    if (sequence != &head) count_all(*sequence);
  }
  if (pool_.free() + alone >= missing_pages(head)) {
    for (Sequence* sequence : submitted_) {
      if (sequence != &head) drop_pages(*sequence);
    }
    return true;
  }
  count_all(head);
  if (pool_.free() + alone < pages_for(head.reserve)) return false;
  for (Sequence* sequence : submitted_) drop_pages(*sequence);
  return true;
}

// --- Admission ---

void Scheduler::start(Sequence& sequence) {
  sequence.phase = Phase::running;
  running_.push_back(&sequence);
}

void Scheduler::admit() {
  while (running_.size() < max_batch_) {
    if (!resumed_.empty()) {
      start(*resumed_.front());
      resumed_.pop_front();
      continue;
    }
    if (submitted_.empty()) return;
    Sequence& head = *submitted_.front();
    if (pool_.free() < missing_pages(head) && (!running_.empty() || !make_room(head))) return;
    submitted_.pop_front();
    for (std::int64_t missing = missing_pages(head); missing > 0; --missing) {
      head.pages.push_back(pool_.take());
    }
    head.admitted = true;
    start(head);
    for (Sequence* fork : submitted_) {
      if (fork->source != &head) continue;
      fork->source = nullptr;
      share(*fork, head);
    }
  }
}

// --- Rows ---

void Scheduler::plan(DecodeBatch& batch) {
  batch.clear();
  pool_.begin_step();
  std::int32_t budget = prefill_tokens_;
  for (Sequence* sequence : running_) {
    if (!catch_up(*sequence)) continue;
    std::int32_t rows = sequence->size() - sequence->cached;
    if (rows > 1) {
      rows = std::min(rows, budget);
      budget -= rows;
    }
    if (rows > 0) append_rows(batch, *sequence, rows);
  }
}

// Moves `cached` over rows that others have filled. False if another sequence of this step is
// filling the next one.
bool Scheduler::catch_up(Sequence& sequence) {
  const std::int32_t end = sequence.decodes() ? sequence.size() - 1 : sequence.size();
  sequence.cached = std::min(sequence.cached, end);
  if (!take_partial(sequence)) return false;
  while (sequence.cached < end) {
    const Page page = sequence.pages[static_cast<std::size_t>(sequence.cached / kPageTokens)];
    const std::int32_t ready = pool_.filled(page) - sequence.cached % kPageTokens;
    if (ready <= 0) return !pool_.claimed(page);
    sequence.cached = std::min(sequence.cached + ready, end);
    counts_.shared += std::max(0, sequence.cached - sequence.seen);
    sequence.seen = std::max(sequence.seen, sequence.cached);
    if (!take_partial(sequence)) return false;
  }
  return true;
}

// Once all full pages are there, copies what the next one has in common. False if another sequence
// of this step is about to fill it, or what it is copied from; if nobody is (it was cancelled), the
// rows are run here.
bool Scheduler::take_partial(Sequence& sequence) {
  PartialPage& partial = sequence.partial;
  if (partial.page < 0 || sequence.cached < partial.index * kPageTokens) return true;
  const Page own = sequence.pages[static_cast<std::size_t>(partial.index)];
  // A fork of this sequence may have been faster, and has filled more of the page than the copy
  // would.
  if (pool_.filled(own) < partial.lanes) {
    if (pool_.filled(partial.page) >= partial.lanes) {
      pool_.copy(partial.page, own, partial.lanes);
    } else if (pool_.claimed(partial.page)) {
      return false;
    }
  }
  pool_.drop(partial.page);
  partial = {};
  return true;
}

void Scheduler::append_rows(DecodeBatch& batch, Sequence& sequence, std::int32_t rows) {
  const std::int32_t first = sequence.cached;
  const std::int32_t end = first + rows;
  batch.rows.push_back({.first_row = static_cast<std::int64_t>(batch.tokens.size()),
                        .rows = rows,
                        .past = first,
                        .pages = sequence.pages.data()});
  batch.sequences.push_back(&sequence);
  for (std::int32_t p = first; p < end; ++p) {
    batch.tokens.push_back(sequence.tokens[static_cast<std::size_t>(p)]);
    batch.positions.push_back(p);
  }
  for (std::int32_t i = first / kPageTokens; i < pages_for(end); ++i) {
    pool_.claim(sequence.pages[static_cast<std::size_t>(i)]);
  }
  if (end == sequence.size() && sequence.decodes()) {
    batch.logit_rows.push_back(static_cast<std::int32_t>(batch.tokens.size()) - 1);
    batch.sampled.push_back(&sequence);
  }
}

void Scheduler::advance(const DecodeBatch& batch) {
  for (std::size_t b = 0; b < batch.rows.size(); ++b) {
    Sequence& sequence = *batch.sequences[b];
    const std::int32_t first = batch.rows[b].past;
    const std::int32_t end = first + batch.rows[b].rows;
    for (std::int32_t i = first / kPageTokens; i < pages_for(end); ++i) {
      const Page page = sequence.pages[static_cast<std::size_t>(i)];
      pool_.set_filled(page, std::min(end - i * kPageTokens, kPageTokens));
    }
    counts_.repeated += std::max(0, std::min(end, sequence.seen) - first);
    counts_.prompt += std::max(0, std::min(end, sequence.boundary) -
                                      std::max({first, sequence.text_start, sequence.seen}));
    sequence.cached = end;
    sequence.seen = std::max(sequence.seen, end);
  }
}

}  // namespace hindsearch
