// The index of a pass as the device finds it, against what the pass was said to be.
#include "native/backend/cuda/runtime/pass_index.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {
namespace {

using cuda::CudaPassIndex;
using cuda::Pass;
using cuda::PassSequence;
using cuda::QueryTile;

// Sequences of these new and past tokens, one after the other, with pages in no order.
struct Rows {
  struct Length {
    std::int32_t rows, past;
  };
  explicit Rows(const std::vector<Length>& lengths) {
    std::int32_t next_page = 1000;
    for (const Length& length : lengths) {
      std::vector<std::int32_t>& own = pages.emplace_back();
      for (std::int32_t at = 0; at < length.past + length.rows; at += kPageTokens) {
        own.push_back(next_page = (next_page * 37 + 11) % 4099);
      }
      sequences.push_back(
          {static_cast<std::int64_t>(tokens.size()), length.rows, length.past, own.data()});
      for (std::int32_t r = 0; r < length.rows; ++r) {
        tokens.push_back(static_cast<Token>((tokens.size() * 7) % 5));
        positions.push_back(length.past + r);
      }
    }
  }
  Rows(const Rows&) = delete;  // sequences point into it
  Rows& operator=(const Rows&) = delete;
  void assign(CudaPassIndex& index) const { index.assign(tokens, positions, sequences); }

  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::vector<std::int32_t>> pages;
  std::vector<SequenceRows> sequences;
};

template <class T>
std::vector<T> read(const DeviceCase& device, const T* data, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  cuda::download_bytes(device.context(), data, values.data(), values.size() * sizeof(T));
  return values;
}

// Everything but tiles: what each row and each sequence is.
void check_rows(const DeviceCase& device, const Pass& pass, const Rows& expected) {
  const auto count = static_cast<std::int64_t>(expected.tokens.size());
  CHECK(pass.rows >= count);
  const auto tokens = read(device, pass.tokens, pass.rows);
  const auto positions = read(device, pass.positions, pass.rows);
  const auto owners = read(device, pass.row_sequence, pass.rows);
  const auto sequences = read(device, pass.sequences, pass.sequence_count);
  for (std::int64_t r = 0; r < pass.rows; ++r) {
    const auto at = static_cast<std::size_t>(r);
    CHECK_EQ(tokens[at], r < count ? expected.tokens[at] : 0);
    CHECK_EQ(positions[at], r < count ? expected.positions[at] : 0);
    if (r >= count) {
      CHECK_EQ(owners[at], -1);
      continue;
    }
    CHECK(owners[at] >= 0 && owners[at] < pass.sequence_count);
    const PassSequence& owner = sequences[static_cast<std::size_t>(owners[at])];
    CHECK(r >= owner.first_row && r < owner.first_row + owner.rows);
    CHECK_EQ(positions[at], owner.past + static_cast<std::int32_t>(r) - owner.first_row);
  }
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const PassSequence& found = sequences[s];
    if (s >= expected.sequences.size()) {
      CHECK_EQ(found.rows, 0);
      continue;
    }
    CHECK_EQ(found.first_row, static_cast<std::int32_t>(expected.sequences[s].first_row));
    CHECK_EQ(found.rows, expected.sequences[s].rows);
    CHECK_EQ(found.past, expected.sequences[s].past);
    const std::vector<std::int32_t>& own = expected.pages[s];
    CHECK(read(device, pass.pages + found.first_page, static_cast<std::int64_t>(own.size())) ==
          own);
  }
}

// The sequences with one new row each stand in the list once, behind them only padding.
void check_decodes(const DeviceCase& device, const Pass& pass, const Rows& expected) {
  std::vector<std::int32_t> single;
  std::int64_t chunks = 0;
  for (std::size_t s = 0; s < expected.sequences.size(); ++s) {
    if (expected.sequences[s].rows != 1) continue;
    single.push_back(static_cast<std::int32_t>(s));
    chunks = std::max(chunks, cuda::ceil_div(expected.sequences[s].past + 1, cuda::kDecodeChunk));
  }
  std::vector<std::int32_t> found = read(device, pass.decode_sequences, pass.decode_count);
  CHECK(found.size() >= single.size());
  for (std::size_t i = single.size(); i < found.size(); ++i) CHECK_EQ(found[i], -1);
  found.resize(single.size());
  std::sort(found.begin(), found.end());
  CHECK(found == single);
  CHECK(pass.decode_chunks >= chunks);
}

// Every row of a sequence with several lies in one tile, and no tile sees more keys than the one
// before.
void check_tiles(const DeviceCase& device, const Pass& pass, const Rows& expected) {
  std::map<std::pair<std::int32_t, std::int32_t>, int> seen;
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const QueryTile& tile : read(device, pass.tiles, pass.tile_count)) {
    const SequenceRows& sequence = expected.sequences[static_cast<std::size_t>(tile.sequence)];
    CHECK(tile.first >= 0 && tile.first < sequence.rows && tile.first % cuda::kQueryTile == 0);
    CHECK(sequence.rows > 1);
    const std::int32_t end = std::min(tile.first + cuda::kQueryTile, sequence.rows);
    CHECK(sequence.past + end <= before);
    before = sequence.past + end;
    for (std::int32_t r = tile.first; r < end; ++r) ++seen[{tile.sequence, r}];
  }
  std::size_t rows = 0;
  for (const SequenceRows& sequence : expected.sequences) {
    if (sequence.rows > 1) rows += static_cast<std::size_t>(sequence.rows);
  }
  CHECK_EQ(seen.size(), rows);
  for (const auto& [row, times] : seen) CHECK_EQ(times, 1);
}

TEST(sizes_of_padded_passes) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
      {0, 0},     {1, 1},     {2, 2},     {3, 4},     {4, 4},    {5, 8},
      {8, 8},     {9, 16},    {57, 64},   {64, 64},   {65, 80},  {128, 128},
      {129, 160}, {256, 256}, {257, 320}, {512, 512}, {513, 576}};
  for (const auto& [sequences, rows] : expected) CHECK_EQ(cuda::padded_rows(sequences), rows);
  for (std::int64_t n = 1; n < 5000; ++n) {
    CHECK(cuda::padded_rows(n) >= n);
    CHECK(cuda::padded_rows(n) >= cuda::padded_rows(n - 1));
    CHECK_EQ(cuda::padded_rows(cuda::padded_rows(n)), cuda::padded_rows(n));
  }
}

TEST(passes_of_all_kinds) {
  const DeviceCase device(ComputeType::f32);
  const Rows passes[] = {
      Rows({{1, 0}}),
      Rows({{1, 15}, {1, 16}, {1, 255}, {1, 256}, {1, 3000}}),
      Rows({{2, 0}}),
      Rows({{64, 0}, {65, 0}, {1, 40}, {200, 17}, {1, 0}, {63, 1000}}),
      Rows({{700, 0}, {3, 690}}),
  };
  for (const bool padded : {false, true}) {
    CudaPassIndex index(device.context(), padded);
    // One after the other, and the first again: nothing of the one before is left.
    for (std::size_t i = 0; i <= std::size(passes); ++i) {
      const Rows& rows = passes[i % std::size(passes)];
      rows.assign(index);
      CHECK_EQ(index.rows(), std::int64_t{index.pass().rows});
      check_rows(device, index.pass(), rows);
      check_decodes(device, index.pass(), rows);
      check_tiles(device, index.pass(), rows);
      std::int32_t longest = 0;
      for (const SequenceRows& sequence : rows.sequences)
        longest = std::max(longest, sequence.rows);
      CHECK_EQ(index.pass().longest_new, longest);
    }
  }
}

TEST(only_a_padded_index_of_single_rows_is_padded) {
  const DeviceCase device(ComputeType::f32);
  const Rows singles({{1, 3}, {1, 600}, {1, 9}}), mixed({{1, 3}, {2, 0}});
  CudaPassIndex padded(device.context(), true), exact(device.context(), false);
  singles.assign(padded);
  singles.assign(exact);
  CHECK_EQ(padded.rows(), std::int64_t{4});
  CHECK_EQ(padded.pass().decode_count, 4);
  CHECK_EQ(padded.pass().sequence_count, 4);
  CHECK_EQ(padded.pass().decode_chunks, 4);  // 3, as a power of two
  CHECK_EQ(exact.rows(), std::int64_t{3});
  CHECK_EQ(exact.pass().decode_count, 3);
  CHECK_EQ(exact.pass().decode_chunks, 3);
  mixed.assign(padded);
  CHECK_EQ(padded.rows(), std::int64_t{3});
}

// What a recorded graph keeps of a pass is the same for the next pass of its size.
TEST(padded_passes_of_one_size_look_the_same) {
  const DeviceCase device(ComputeType::f32);
  CudaPassIndex index(device.context(), true);
  Rows({{1, 3}, {1, 700}, {1, 9}, {1, 1}, {1, 2}}).assign(index);
  const Pass first = index.pass();
  Rows({{2, 3}, {40, 0}}).assign(index);  // a prompt in between
  const Rows second({{1, 900}, {1, 10}, {1, 20}, {1, 30}, {1, 40}, {1, 50}, {1, 60}});
  second.assign(index);
  const Pass& again = index.pass();
  CHECK(again.tokens == first.tokens && again.positions == first.positions);
  CHECK(again.row_sequence == first.row_sequence && again.sequences == first.sequences);
  CHECK(again.pages == first.pages && again.decode_sequences == first.decode_sequences);
  CHECK_EQ(again.rows, first.rows);
  CHECK_EQ(again.decode_chunks, first.decode_chunks);
  check_rows(device, again, second);
}

TEST(runs_of_tokens) {
  const DeviceCase device(ComputeType::f32);
  for (const std::vector<Token>& ids : {std::vector<Token>{},
                                        {5},
                                        {3, 3, 3},
                                        {9, 0, 9, 2, 0, 9},
                                        tokens_below(700, 40, 1),
                                        {std::numeric_limits<Token>::max(), 0}}) {
    const cuda::UploadedRuns uploaded(device.context(), ids);
    const cuda::TokenRuns& runs = uploaded.get();
    std::map<Token, std::vector<std::int32_t>> expected;
    for (std::size_t r = 0; r < ids.size(); ++r) {
      expected[ids[r]].push_back(static_cast<std::int32_t>(r));
    }
    CHECK_EQ(runs.count, static_cast<std::int32_t>(expected.size()));
    const auto tokens = read(device, runs.tokens, runs.count);
    const auto begin = read(device, runs.begin, runs.count + 1);
    const auto rows = read(device, runs.rows, static_cast<std::int64_t>(ids.size()));
    CHECK_EQ(begin.front(), 0);
    CHECK_EQ(begin.back(), static_cast<std::int32_t>(ids.size()));
    std::size_t i = 0;
    for (const auto& [token, in_order] : expected) {
      CHECK_EQ(tokens[i], token);
      CHECK(std::vector<std::int32_t>(rows.begin() + begin[i], rows.begin() + begin[i + 1]) ==
            in_order);
      ++i;
    }
  }
}

TEST(the_index_makes_runs_of_its_own_tokens) {
  const DeviceCase device(ComputeType::f32);
  CudaPassIndex index(device.context(), false);
  const Rows first({{6, 0}}), second({{3, 0}});
  for (const Rows* rows : {&first, &second}) {
    rows->assign(index);
    const cuda::TokenRuns& runs = index.runs();
    const auto found = read(device, runs.rows, static_cast<std::int64_t>(rows->tokens.size()));
    std::vector<std::int32_t> sorted = found;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t r = 0; r < sorted.size(); ++r) {
      CHECK_EQ(sorted[r], static_cast<std::int32_t>(r));
    }
    CHECK_EQ(runs.count, static_cast<std::int32_t>(std::min<std::size_t>(rows->tokens.size(), 5)));
  }
}

TEST(an_empty_pass) {
  const DeviceCase device(ComputeType::f32);
  for (const bool padded : {false, true}) {
    CudaPassIndex index(device.context(), padded);
    Rows({}).assign(index);
    CHECK_EQ(index.rows(), std::int64_t{0});
    CHECK_EQ(index.pass().tile_count + index.pass().decode_count, 0);
    CHECK_EQ(index.runs().count, 0);
  }
}

TEST(rows_outside_the_pass_are_refused) {
  const DeviceCase device(ComputeType::f32);
  CudaPassIndex index(device.context(), false);
  Rows rows({{2, 0}, {3, 0}});
  rows.sequences[1].rows = 4;
  CHECK_ERROR(code::kInternal, rows.assign(index));
  rows.sequences[1].rows = 3;
  rows.sequences[1].past = std::numeric_limits<std::int32_t>::max();
  CHECK_ERROR(code::kInvalidArgument, rows.assign(index));
}

}  // namespace
}  // namespace hindsearch::testing
