// Decides which sequences are in the batch, who holds which pages, and which rows a step runs.
//
// Admission. A sequence enters the batch with pages for all the tokens it may ever hold, so nothing
// admitted ever waits for memory. Those that already have their pages (extended ones) go first:
// they are the ones that give pages back. New ones are admitted in the order in which they came.
//
// Sharing. A fork shares all full pages before its last token of text, copies what the next page
// has in common, and runs that last token again for its logits. Who fills a shared page is settled
// anew in every step: the first in the batch that needs it; the others wait for the next step and
// find it filled. So it does not matter who is cancelled or released while a prompt is under way.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "native/rollout/page_pool.h"
#include "native/rollout/sequence.h"

namespace hindsearch {

// The rows of one step, reused from step to step.
struct DecodeBatch {
  std::vector<Token> tokens;             // [R]
  std::vector<std::int32_t> positions;   // [R]
  std::vector<SequenceRows> rows;        // [B]
  std::vector<Sequence*> sequences;      // [B]
  std::vector<std::int32_t> logit_rows;  // of the sequences that get a token
  std::vector<Sequence*> sampled;        // those sequences

  void clear();
};

struct RowCounts {
  std::int64_t prompt = 0, shared = 0, repeated = 0;
};

class Scheduler {
 public:
  Scheduler(PagePool& pool, std::int32_t max_batch, std::int32_t prefill_tokens);

  void enqueue(Sequence& sequence);                      // a waiting one, to decode on
  void enqueue_fork(Sequence& child, Sequence& parent);  // a new one with the text of `parent`
  void withdraw(Sequence& sequence);                     // out of batch or queue; now waiting
  void release(Sequence& sequence);                      // that, and its pages are given back

  void admit();
  // Chooses the rows of the next step.
  void plan(DecodeBatch& batch);
  // The model has run them.
  void advance(const DecodeBatch& batch);

  const std::vector<Sequence*>& running() const { return running_; }
  std::int64_t queued() const;
  const RowCounts& counts() const { return counts_; }

 private:
  void share(Sequence& child, const Sequence& parent);
  void drop_pages(Sequence& sequence);
  void hand_over(Sequence& leaving);
  std::int64_t missing_pages(const Sequence& sequence) const;
  bool make_room(Sequence& head);
  void start(Sequence& sequence);
  bool catch_up(Sequence& sequence);
  bool take_partial(Sequence& sequence);
  void append_rows(DecodeBatch& batch, Sequence& sequence, std::int32_t rows);

  PagePool& pool_;
  const std::size_t max_batch_;
  const std::int32_t prefill_tokens_;
  std::vector<Sequence*> running_;   // in the order of their admission to the batch
  std::deque<Sequence*> resumed_;    // have their pages
  std::deque<Sequence*> submitted_;  // need pages
  RowCounts counts_;
};

}  // namespace hindsearch
