// The cache of keys and values: pages that sequences hold, share and give back.
//
// A page knows how many of its lanes hold keys and values of the present weights. All sequences
// that share a page agree on the tokens in it, so whoever fills it fills it for all, and after a
// change of weights nothing but these counts has to be forgotten.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "native/backend/backend.h"

namespace hindsearch {

using Page = std::int32_t;

// Pages that hold this many tokens.
constexpr std::int64_t pages_for(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

class PagePool {
 public:
  // Throws Error(OUT_OF_MEMORY).
  PagePool(Backend& backend, std::int32_t layers, std::int32_t kv_heads, std::int32_t head_dim,
           std::int64_t pages);

  // A page of one holder, with no lanes filled. The caller has checked free().
  Page take();
  void hold(Page page);  // one holder more
  void drop(Page page);  // one holder less; without any it is free
  std::int32_t holders(Page page) const { return at(page).holders; }

  std::int32_t filled(Page page) const { return at(page).filled; }
  void set_filled(Page page, std::int32_t lanes) { at(page).filled = lanes; }
  // The weights changed: no lane is filled.
  void forget();

  // One writer a step: claim() in a step keeps the other holders of the page off until the next.
  void begin_step() { ++step_; }
  void claim(Page page) { at(page).claimed = step_; }
  bool claimed(Page page) const { return at(page).claimed == step_; }

  // Copies the first `lanes` lanes (in fact all; the rest is not filled).
  void copy(Page from, Page to, std::int32_t lanes);

  KvPages view() const { return view_; }
  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t total() const { return static_cast<std::int64_t>(pages_.size()); }
  std::int64_t used() const { return total() - free(); }
  std::int64_t peak() const { return peak_; }
  std::size_t bytes() const;

 private:
  struct Info {
    std::int32_t holders = 0;
    std::int32_t filled = 0;
    std::int64_t claimed = 0;
  };
  Info& at(Page page) { return pages_[static_cast<std::size_t>(page)]; }
  const Info& at(Page page) const { return pages_[static_cast<std::size_t>(page)]; }

  Backend& backend_;
  std::unique_ptr<Buffer> data_;  // [pages][page_floats]
  KvPages view_;
  std::vector<Info> pages_;
  std::vector<Page> free_;  // a stack: the page given back last is still in the processor's cache
  std::int64_t peak_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace hindsearch
