#include "native/rollout/page_pool.h"

#include <memory>

#include "native/backend/backend.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

struct Fixture {
  std::unique_ptr<Backend> backend = make_backend(ComputeType::f32);
  PagePool pool{*backend, /*layers=*/2, /*kv_heads=*/3, /*head_dim=*/4, /*pages=*/5};
};

TEST(pages_for_rounds_up) {
  CHECK_EQ(pages_for(0), 0);
  CHECK_EQ(pages_for(1), 1);
  CHECK_EQ(pages_for(kPageTokens), 1);
  CHECK_EQ(pages_for(kPageTokens + 1), 2);
}

TEST(pages_are_counted) {
  Fixture f;
  CHECK_EQ(f.pool.total(), 5);
  CHECK_EQ(f.pool.free(), 5);
  const Page a = f.pool.take();
  const Page b = f.pool.take();
  CHECK(a != b);
  CHECK_EQ(f.pool.used(), 2);
  f.pool.hold(a);
  CHECK_EQ(f.pool.holders(a), 2);
  f.pool.drop(a);
  CHECK_EQ(f.pool.used(), 2);  // one holder is left
  f.pool.drop(a);
  f.pool.drop(b);
  CHECK_EQ(f.pool.used(), 0);
  CHECK_EQ(f.pool.peak(), 2);
}

TEST(a_page_comes_back_without_filled_lanes) {
  Fixture f;
  const Page a = f.pool.take();
  f.pool.set_filled(a, 9);
  f.pool.drop(a);
  const Page again = f.pool.take();
  CHECK_EQ(again, a);
  CHECK_EQ(f.pool.filled(again), 0);
  CHECK_EQ(f.pool.holders(again), 1);
}

TEST(forget_empties_every_page_and_keeps_its_holders) {
  Fixture f;
  const Page a = f.pool.take();
  f.pool.set_filled(a, 16);
  f.pool.forget();
  CHECK_EQ(f.pool.filled(a), 0);
  CHECK_EQ(f.pool.holders(a), 1);
}

TEST(a_claim_lasts_one_step) {
  Fixture f;
  const Page a = f.pool.take();
  f.pool.begin_step();
  CHECK(!f.pool.claimed(a));
  f.pool.claim(a);
  CHECK(f.pool.claimed(a));
  f.pool.begin_step();
  CHECK(!f.pool.claimed(a));
}

TEST(copy_takes_every_layer_and_head) {
  Fixture f;
  const Page a = f.pool.take();
  const Page b = f.pool.take();
  const KvPages view = f.pool.view();
  const auto n = static_cast<std::size_t>(view.page_floats);
  std::vector<float> values(n), copied(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i + 1);
  f.backend->upload(values.data(), view.data + a * view.page_floats, view.page_floats);
  f.pool.copy(a, b, 7);
  f.backend->download(view.data + b * view.page_floats, copied.data(), view.page_floats);
  CHECK(copied == values);
  CHECK_EQ(f.pool.filled(b), 7);
  CHECK_EQ(n, static_cast<std::size_t>(2 * 2 * 3 * 4 * kPageTokens));
}

TEST(bytes_cover_the_pages) {
  Fixture f;
  CHECK(f.pool.bytes() >=
        5 * static_cast<std::size_t>(f.pool.view().page_floats) * sizeof(float));
}

}  // namespace
}  // namespace hindsearch
