// Passes recorded and played again do what they do without.
#include "native/backend/cuda/runtime/graph.h"

#include <array>

#include "native/backend/cuda/runtime/pass_index.h"
#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {
namespace {

using cuda::CudaPassIndex;
using cuda::GraphCache;
using cuda::Slot;

// What one run of a pass does: rows of `table` that the index's tokens name go to `out`, by way of
// working memory.
class Work {
 public:
  static constexpr std::int64_t kWidth = 4;

  Work(const DeviceCase& device, std::int64_t most_rows)
      : device_(device),
        table_(device.upload(normal(100 * kWidth, 1))),
        out_(device.floats(static_cast<std::size_t>(most_rows * kWidth))),
        index_(device.context(), true) {}

  // Runs a pass over one new token of each sequence, and returns whether `ops` was called.
  bool run(const std::vector<Token>& tokens, std::int32_t past = 3) {
    assign(tokens, past);
    bool called = false;
    const std::array<const void*, 1> key = {out_.data()};
    index_.graphs().run(device_.context(), index_.pass(), key, [&] {
      called = true;
      enqueue();
    });
    check(tokens);
    return called;
  }

  void assign(const std::vector<Token>& tokens, std::int32_t past) {
    pages_.assign(static_cast<std::size_t>(past / kPageTokens + 1), 0);
    positions_.assign(tokens.size(), past);
    sequences_.clear();
    for (std::size_t s = 0; s < tokens.size(); ++s) {
      sequences_.push_back({static_cast<std::int64_t>(s), 1, past, pages_.data()});
    }
    tokens_ = tokens;  // which must stay as they are
    index_.assign(tokens_, positions_, sequences_);
  }

  void enqueue() {
    const cuda::Pass& pass = index_.pass();
    auto* const middle =
        device_.context().workspace.take<float>(Slot::left, pass.rows * kWidth + extra);
    cuda::gather(device_.context(), pass.tokens, pass.rows, table_.data(), kWidth, middle);
    cuda::zero(device_.context(), out_.data(), pass.rows * kWidth);
    cuda::add(device_.context(), middle, out_.data(), pass.rows * kWidth);
  }

  void check(const std::vector<Token>& tokens) const {
    const Floats table = table_.download(), out = out_.download();
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        CHECK_EQ(out[r * kWidth + i], table[static_cast<std::size_t>(tokens[r]) * kWidth + i]);
      }
    }
  }

  GraphCache& graphs() { return index_.graphs(); }
  CudaPassIndex& index() { return index_; }

  std::int64_t extra = 0;  // floats of working memory that are asked for beside

 private:
  const DeviceCase& device_;
  DeviceArray<float> table_, out_;
  CudaPassIndex index_;
  std::vector<Token> tokens_;
  std::vector<std::int32_t> positions_, pages_;
  std::vector<SequenceRows> sequences_;
};

TEST(a_pass_runs_then_is_recorded_then_played) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 8);
  CHECK(work.run({1, 2, 3, 4, 5}));
  CHECK_EQ(work.graphs().size(), std::size_t{0});
  CHECK(work.run({6, 7, 8, 9, 10}));
  CHECK_EQ(work.graphs().size(), std::size_t{1});
  // Other tokens, and as many sequences as the padding leaves room for: the same record.
  for (Token first = 11; first < 20; ++first) {
    CHECK(!work.run({first, 2, 3, static_cast<Token>(99 - first), 5}));
  }
  CHECK(!work.run({1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK_EQ(work.graphs().size(), std::size_t{1});
}

TEST(each_size_has_a_record_of_its_own) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 16);
  for (int round = 0; round < 2; ++round) {
    CHECK(work.run({1}));
    CHECK(work.run({1, 2}));
    CHECK(work.run({1, 2, 3}));
    CHECK(work.run({1, 2}, cuda::kDecodeChunk));  // as many rows, more chunks of keys
  }
  CHECK_EQ(work.graphs().size(), std::size_t{4});
  CHECK(!work.run({3}));
  CHECK(!work.run({4, 5, 6, 7}));
  CHECK(!work.run({8, 9}, cuda::kDecodeChunk + 100));
  CHECK(work.run({8, 9}, 2 * cuda::kDecodeChunk));
}

TEST(another_address_is_another_record) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 8);
  work.assign({1, 2}, 0);
  int calls = 0;
  const auto run = [&](const void* address) {
    const std::array<const void*, 2> key = {nullptr, address};
    work.graphs().run(device.context(), work.index().pass(), key, [&] {
      ++calls;
      work.enqueue();
    });
  };
  const int first = 0, second = 0;
  for (int i = 0; i < 4; ++i) run(&first);
  CHECK_EQ(calls, 2);
  for (int i = 0; i < 4; ++i) run(&second);
  CHECK_EQ(calls, 4);
  run(&first);
  CHECK_EQ(calls, 4);
}

TEST(working_memory_that_moved_makes_records_void) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 8);
  for (int i = 0; i < 3; ++i) work.run({1, 2});
  CHECK(!work.run({3, 4}));
  // Another op asks for more: the address that the record holds is gone.
  device.context().workspace.bytes(Slot::left, std::size_t{4} << 20);
  CHECK(work.run({5, 6}));
  CHECK_EQ(work.graphs().size(), std::size_t{0});
  CHECK(work.run({7, 8}));
  CHECK(!work.run({9, 10}));
}

TEST(an_index_that_moved_makes_records_void) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 512);
  for (int i = 0; i < 3; ++i) work.run({1, 2});
  // 512 sequences of 9,000 tokens have more pages than the index first made room for.
  work.run(tokens_below(512, 100, 1), 9000);
  CHECK(work.run({1, 2}));
  CHECK(work.run({3, 4}));
  CHECK(!work.run({5, 6}));
}

TEST(records_are_bounded_and_the_one_unused_longest_goes) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 8);
  work.assign({1, 2}, 0);
  const std::vector<int> addresses(GraphCache::kMost + 1);
  int calls = 0;
  const auto run = [&](std::size_t i) {
    const std::array<const void*, 1> key = {&addresses[i]};
    const int before = calls;
    work.graphs().run(device.context(), work.index().pass(), key, [&] {
      ++calls;
      work.enqueue();
    });
    return calls > before;
  };
  for (std::size_t i = 0; i < GraphCache::kMost; ++i) CHECK(run(i) && run(i));
  CHECK_EQ(work.graphs().size(), GraphCache::kMost);
  CHECK(!run(0));  // now the second is the oldest
  CHECK(run(GraphCache::kMost) && run(GraphCache::kMost));
  CHECK_EQ(work.graphs().size(), GraphCache::kMost);
  CHECK(!run(0) && !run(2));
  CHECK(run(1));
}

TEST(a_pass_with_prompts_is_never_recorded) {
  const DeviceCase device(ComputeType::f32);
  CudaPassIndex index(device.context(), true);
  const std::vector<Token> tokens = {1, 2, 3};
  const std::vector<std::int32_t> positions = {0, 1, 2};
  const std::int32_t page = 0;
  const std::vector<SequenceRows> sequences = {{0, 3, 0, &page}};
  int calls = 0;
  for (int i = 0; i < 5; ++i) {
    index.assign(tokens, positions, sequences);
    index.graphs().run(device.context(), index.pass(), {}, [&] { ++calls; });
  }
  CHECK_EQ(calls, 5);
  CHECK_EQ(index.graphs().size(), std::size_t{0});
}

TEST(what_cannot_be_recorded_runs_as_it_is) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 8);
  // Working memory that grows in the middle of the recording, as no op's should.
  CHECK(work.run({1, 2}));
  work.extra = 1 << 20;
  CHECK(work.run({3, 4}));  // the result is checked
  CHECK_EQ(work.graphs().size(), std::size_t{0});
  // It has grown now, so the next ones can be.
  CHECK(work.run({5, 6}));
  CHECK(work.run({7, 8}));
  CHECK(!work.run({9, 10}));
}

TEST(an_error_inside_a_recording_is_the_callers) {
  const DeviceCase device(ComputeType::f32);
  Work work(device, 8);
  work.run({1, 2});
  work.assign({1, 2}, 3);
  const auto fail = [] { throw Error(code::kInvalidArgument, "as without a recording"); };
  Floats nothing(8);
  const auto out = device.upload(nothing);
  const std::array<const void*, 1> key = {out.data()};
  for (int i = 0; i < 3; ++i) {
    CHECK_ERROR(code::kInvalidArgument,
                work.graphs().run(device.context(), work.index().pass(), key, fail));
  }
  // The stream records no more.
  CHECK(work.run({3, 4}));
  CHECK(!work.run({5, 6}));
}

}  // namespace
}  // namespace hindsearch::testing
