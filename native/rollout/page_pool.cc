#include "native/rollout/page_pool.h"

#include <algorithm>

namespace hindsearch {

PagePool::PagePool(Backend& backend, std::int32_t layers, std::int32_t kv_heads,
                   std::int32_t head_dim, std::int64_t pages)
    : backend_(backend),
      view_(backend.kv_pages(layers, kv_heads, head_dim)),
      pages_(static_cast<std::size_t>(pages)) {
  data_ = backend_.allocate(pages * view_.page_floats);
  view_.data = data_->data();
  free_.reserve(pages_.size());
  for (std::int64_t page = pages - 1; page >= 0; --page) free_.push_back(static_cast<Page>(page));
}

Page PagePool::take() {
  const Page page = free_.back();
  free_.pop_back();
  at(page) = {.holders = 1, .filled = 0, .claimed = 0};
  peak_ = std::max(peak_, used());
  return page;
}

void PagePool::hold(Page page) { ++at(page).holders; }

void PagePool::drop(Page page) {
  if (--at(page).holders == 0) free_.push_back(page);
}

void PagePool::forget() {
  for (Info& page : pages_) page.filled = 0;
}

void PagePool::copy(Page from, Page to, std::int32_t lanes) {
  const std::int64_t n = view_.page_floats;
  backend_.copy(view_.data + from * n, view_.data + to * n, n);
  set_filled(to, lanes);
}

std::size_t PagePool::bytes() const {
  return static_cast<std::size_t>(data_->size()) * sizeof(float) + pages_.size() * sizeof(Info) +
         free_.capacity() * sizeof(Page);
}

}  // namespace hindsearch
