#include "native/backend/cuda/runtime/pass_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "native/core/error.h"

namespace hindsearch::cuda {
namespace {

std::int32_t to_int32(std::int64_t count, const char* what) {
  if (count > std::numeric_limits<std::int32_t>::max()) {
    throw Error(code::kInvalidArgument,
                "a pass has " + std::to_string(count) + " " + what +
                    ", but the GPU's kernels count to 2^31 - 1; use smaller batches");
  }
  return static_cast<std::int32_t>(count);
}

// Arrays one behind the other in one block. The first walk finds the block's size, the second, when
// there is one, where in it each array lies.
class Layout {
 public:
  Layout(std::byte* host, std::byte* device) : host_(host), device_(device) {}

  // Where the host writes the array; `device` becomes its place there.
  template <class T>
  T* add(std::int64_t count, const T*& device) {
    constexpr std::size_t kAlignment = 16;
    const std::size_t at = bytes_;
    bytes_ +=
        (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    device = device_ == nullptr ? nullptr : reinterpret_cast<const T*>(device_ + at);
    return host_ == nullptr ? nullptr : reinterpret_cast<T*>(host_ + at);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* host_;
  std::byte* device_;
  std::size_t bytes_ = 0;
};

struct HostPass {
  Token* tokens;
  std::int32_t* positions;
  std::int32_t* row_sequence;
  PassSequence* sequences;
  std::int32_t* decode_sequences;
  QueryTile* tiles;
  std::int32_t* pages;
};

// The arrays of `pass`, whose counts are set. The pages come last: of all lengths theirs alone
// differs between passes that share a record.
HostPass lay_out(Layout& layout, Pass& pass, std::int64_t page_count) {
  HostPass host;
  host.tokens = layout.add(pass.rows, pass.tokens);
  host.positions = layout.add(pass.rows, pass.positions);
  host.row_sequence = layout.add(pass.rows, pass.row_sequence);
  host.sequences = layout.add(pass.sequence_count, pass.sequences);
  host.decode_sequences = layout.add(pass.decode_count, pass.decode_sequences);
  host.tiles = layout.add(pass.tile_count, pass.tiles);
  host.pages = layout.add(page_count, pass.pages);
  return host;
}

std::int64_t pages_of(const SequenceRows& sequence) {
  return ceil_div(std::int64_t{sequence.past} + sequence.rows, kPageTokens);
}

// Blocks start in the order of their tiles, so that no long one begins when all others are done.
void fill_tiles(std::span<const SequenceRows> sequences, std::vector<QueryTile>& tiles) {
  tiles.clear();
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    if (sequences[s].rows <= 1) continue;
    for (std::int32_t first = 0; first < sequences[s].rows; first += kQueryTile) {
      tiles.push_back({static_cast<std::int32_t>(s), first});
    }
  }
  const auto keys = [&](const QueryTile& tile) {
    const SequenceRows& sequence = sequences[static_cast<std::size_t>(tile.sequence)];
    return sequence.past + std::min(tile.first + kQueryTile, sequence.rows);
  };
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](const QueryTile& a, const QueryTile& b) { return keys(a) > keys(b); });
}

}  // namespace

UploadedRuns::UploadedRuns(const Context& context, std::span<const std::int32_t> ids)
    // Each of the three arrays has at most one entry an id, and one more.
    : memory_(context.stream, (3 * ids.size() + 1) * sizeof(std::int32_t)) {
  to_int32(static_cast<std::int64_t>(ids.size()), "rows");
  std::vector<std::uint64_t> sorted(ids.size());  // id, then row
  for (std::size_t row = 0; row < ids.size(); ++row) {
    sorted[row] = std::uint64_t{static_cast<std::uint32_t>(ids[row])} << 32 | row;
  }
  std::sort(sorted.begin(), sorted.end());

  std::vector<std::int32_t> rows, begin, tokens;
  rows.reserve(ids.size());
  for (const std::uint64_t entry : sorted) {
    const auto id = static_cast<std::int32_t>(entry >> 32);
    if (tokens.empty() || tokens.back() != id) {
      tokens.push_back(id);
      begin.push_back(static_cast<std::int32_t>(rows.size()));
    }
    rows.push_back(static_cast<std::int32_t>(entry & 0xffffffff));
  }
  begin.push_back(static_cast<std::int32_t>(rows.size()));

  runs_.count = static_cast<std::int32_t>(tokens.size());
  auto* device = static_cast<std::int32_t*>(memory_.data());
  std::vector<std::int32_t> all;
  all.reserve(rows.size() + begin.size() + tokens.size());
  const auto append = [&](const std::vector<std::int32_t>& values) {
    const std::int32_t* const place = device + all.size();
    all.insert(all.end(), values.begin(), values.end());
    return place;
  };
  runs_.rows = append(rows);
  runs_.begin = append(begin);
  runs_.tokens = append(tokens);
  upload_bytes(context, all.data(), device, all.size() * sizeof(std::int32_t));
}

void CudaPassIndex::assign(std::span<const Token> tokens, std::span<const std::int32_t> positions,
                           std::span<const SequenceRows> sequences) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto sequence_count = static_cast<std::int64_t>(sequences.size());
  std::int64_t page_count = 0, decode_count = 0, longest_new = 0, chunks = 0;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.first_row < 0 || sequence.first_row + sequence.rows > count) {
      throw Error(code::kInternal,
                  "a sequence's rows lie outside its pass of " + std::to_string(count) + " rows");
    }
    to_int32(std::int64_t{sequence.past} + sequence.rows, "tokens in one sequence");
    page_count += pages_of(sequence);
    longest_new = std::max<std::int64_t>(longest_new, sequence.rows);
    if (sequence.rows != 1) continue;
    ++decode_count;
    chunks = std::max(chunks, ceil_div(std::int64_t{sequence.past} + 1, kDecodeChunk));
  }
  const bool single = padded_ && decode_count == sequence_count && count == sequence_count;
  const std::int64_t padded = single ? padded_rows(count) : count;
  fill_tiles(sequences, tiles_);

  runs_.reset();
  tokens_ = tokens;
  pass_ = {};
  pass_.rows = to_int32(padded, "rows");
  pass_.sequence_count = to_int32(single ? padded : sequence_count, "sequences");
  pass_.decode_count = to_int32(single ? padded : decode_count, "sequences");
  pass_.decode_chunks =
      to_int32(single ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(chunks)))
                      : chunks,
               "chunks of keys");
  pass_.tile_count = to_int32(static_cast<std::int64_t>(tiles_.size()), "tiles");
  pass_.longest_new = to_int32(longest_new, "rows");
  to_int32(page_count, "pages");

  Layout sizes(nullptr, nullptr);
  lay_out(sizes, pass_, page_count);
  std::byte* const device = place(sizes.bytes(), single);
  host_.assign(sizes.bytes(), std::byte{0});
  Layout layout(host_.data(), device);
  const HostPass host = lay_out(layout, pass_, page_count);

  std::copy(tokens.begin(), tokens.end(), host.tokens);
  std::copy(positions.begin(), positions.end(), host.positions);
  std::copy(tiles_.begin(), tiles_.end(), host.tiles);
  std::fill_n(host.row_sequence, pass_.rows, -1);
  std::fill_n(host.decode_sequences, pass_.decode_count, -1);
  std::int64_t first_page = 0, decodes = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(sequence_count); ++s) {
    const SequenceRows& sequence = sequences[static_cast<std::size_t>(s)];
    host.sequences[s] = {static_cast<std::int32_t>(sequence.first_row), sequence.rows,
                         sequence.past, static_cast<std::int32_t>(first_page)};
    std::fill_n(host.row_sequence + sequence.first_row, sequence.rows, s);
    std::copy_n(sequence.pages, pages_of(sequence), host.pages + first_page);
    first_page += pages_of(sequence);
    if (sequence.rows == 1) host.decode_sequences[decodes++] = s;
  }
  upload_bytes(context_, host_.data(), device, host_.size());
}

std::byte* CudaPassIndex::place(std::size_t bytes, bool fixed) {
  if (!fixed) {
    passing_.reset();
    passing_.emplace(context_.stream, bytes);
    return static_cast<std::byte*>(passing_->data());
  }
  if (fixed_.size() < bytes) {
    graphs_.clear();
    fixed_ = DeviceBytes();
    // Room for contexts to grow: a new address costs all records.
    fixed_ = DeviceBytes(std::bit_ceil(std::max(bytes, std::size_t{1} << 20)));
  }
  return static_cast<std::byte*>(fixed_.data());
}

const TokenRuns& CudaPassIndex::runs() const {
  if (!runs_) runs_.emplace(context_, tokens_);
  return runs_->get();
}

}  // namespace hindsearch::cuda
