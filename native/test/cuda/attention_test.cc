// The forward of attention over pages, against the CPU's.
#include <cstring>

#include "native/test/cuda/attention_case.h"

namespace hindsearch::testing {
namespace {

// Every class of head sizes and sizes that fill none, groups of 1 to 17 heads, lengths around
// pages, tiles and chunks, pasts, and sequences of one new row among others.
const std::vector<AttentionShape>& shapes() {
  static const std::vector<AttentionShape> all = {
      {3, 3, 32, {{0, 1}, {0, 2}, {0, 15}, {0, 16}, {0, 17}, {0, 100}}},
      {4, 2, 8, {{0, 33}, {0, 7}, {40, 1}}},
      {14, 2, 64, {{0, 49}, {0, 65}, {70, 1}, {255, 1}, {256, 1}}},
      {8, 1, 24, {{0, 40}, {21, 19}}},
      {2, 2, 128, {{0, 20}, {0, 96}, {300, 65}}},
      {10, 1, 12, {{0, 21}, {530, 1}}},
      {1, 1, 2, {{0, 18}, {5, 1}}},
      {3, 1, 7, {{0, 30}, {16, 2}, {15, 1}}},
      {16, 2, 128, {{0, 70}, {37, 5}, {290, 1}}},
      {17, 1, 16, {{3, 9}, {17, 1}}},
      {4, 4, 96, {{0, 66}, {30, 1}}},
      {6, 2, 80, {{10, 70}, {64, 1}}},
      {4, 2, 256, {{0, 37}, {33, 8}, {270, 1}}},
      {2, 2, 160, {{0, 20}, {4, 1}}},
      {2, 1, 64, {{0, 700}, {700, 1}}},
  };
  return all;
}

// An error is held against what the terms of a sum would make without their signs, sum_j p_j |v_j|.
// In f32 both sides add up to 700 products and exponentials, each in its own order. In bf16 each
// p_j is rounded to 8 bits, so by up to 2^-8 of itself.
void check_close(const AttentionCase& host, const DeviceCase& device, Backend& cpu,
                 const AttentionResult& actual) {
  const AttentionResult expected = host.on_cpu(cpu), magnitudes = host.on_cpu(cpu, true);
  const double tolerance = device.compute() == ComputeType::f32 ? 2e-6 : 0x1p-8 + 2e-6;
  for (std::size_t i = 0; i < expected.out.size(); ++i) {
    CHECK_NEAR(actual.out[i], expected.out[i], tolerance * magnitudes.out[i]);
  }
  // Scores of bf16 operands are sums in f32, and so are those of exponentials.
  for (std::size_t i = 0; i < expected.statistics.size(); ++i) {
    CHECK_NEAR(actual.statistics[i], expected.statistics[i],
               4e-6 * std::max(1.0f, std::abs(expected.statistics[i])));
  }
}

TEST(attention_matches_the_cpu) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const AttentionShape& shape : shapes()) {
      const AttentionCase host(shape, device.compute());
      check_close(host, device, cpu, DevicePages(host, device).run(host.all(), false));
    }
  });
}

// The pages hold what was given, in the pass's layer and places, and nothing else is touched.
TEST(keys_and_values_are_written_where_they_belong) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    for (const bool padded : {false, true}) {
      const AttentionCase host({4, 2, 6, {{0, 1}, {14, 1}, {15, 1}, {16, 1}, {33, 1}}},
                               device.compute());
      const DevicePages pages(host, device);
      Floats before = pages.download();
      pages.run(host.all(), padded);
      const Floats after = pages.download();
      const bool f32 = device.compute() == ComputeType::f32;
      const std::size_t size = f32 ? 4 : 2;
      auto* const expected = reinterpret_cast<unsigned char*>(before.data());
      for (std::size_t s = 0; s < host.shape.sequences.size(); ++s) {
        const auto& sequence = host.shape.sequences[s];
        for (std::int32_t j = 0; j < sequence.past + sequence.rows; ++j) {
          for (std::int32_t head = 0; head < 2; ++head) {
            for (std::int32_t d = 0; d < 6; ++d) {
              for (const int which : {0, 1}) {
                const std::size_t at = static_cast<std::size_t>(
                    host.page(s, j) * 2 * 2 * 2 * 6 * 16 +
                    ((AttentionCase::kLayer * 2 + head) * 2 + which) * 6 * 16 + j % 16 * 6 + d);
                const float x = host.token(s, j)[24 + 12 * which + 6 * head + d];
                const cuda::bf16 narrow = cuda::to_bf16(x);
                std::memcpy(expected + at * size, f32 ? static_cast<const void*>(&x) : &narrow,
                            size);
              }
            }
          }
        }
      }
      CHECK(same_bits(before, after));
    }
  });
}

// Lengths from 1 to four chunks, so that one pass has sequences of every kind.
AttentionShape decode_shape(std::size_t sequences, std::int32_t heads, std::int32_t kv_heads,
                            std::int32_t width) {
  const std::int32_t pasts[] = {0, 254, 16, 255, 15, 256, 3, 900, 31, 257, 100, 511, 64, 512, 1};
  AttentionShape shape{heads, kv_heads, width, {}};
  for (std::size_t i = 0; i < sequences; ++i) shape.sequences.push_back({pasts[i % 15], 1});
  return shape;
}

TEST(decode_matches_the_cpu_in_padded_passes) {
  for_compute_types([](const DeviceCase& device, Backend& cpu) {
    for (const std::size_t count : {1, 2, 3, 9, 70}) {
      const AttentionCase host(decode_shape(count, 4, 2, 16), device.compute());
      const AttentionResult actual = DevicePages(host, device).run(host.all(), true);
      check_close(host, device, cpu, actual);
      // Of places that pad the pass nothing is written.
      for (std::size_t i = count * static_cast<std::size_t>(host.out_width());
           i < actual.out.size(); ++i) {
        CHECK_EQ(actual.out[i], kUntouched);
      }
    }
  });
}

TEST(a_decoded_row_does_not_depend_on_the_others) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    for (const std::int32_t width : {24, 64}) {
      const AttentionCase host(decode_shape(9, 6, 2, width), device.compute());
      const DevicePages together(host, device);
      const Floats expected = together.run(host.all(), true).out;
      CHECK(same_bits(together.run(host.all(), false).out.data(), expected.data(),
                      9 * static_cast<std::size_t>(host.out_width())));
      for (std::size_t s = 0; s < host.shape.sequences.size(); ++s) {
        const std::size_t alone[] = {s};
        const Floats out = DevicePages(host, device).run(alone, s % 2 == 0).out;
        const auto row = static_cast<std::size_t>(host.out_width());
        CHECK(same_bits(out.data(), &expected[s * row], row));
      }
    }
  });
}

TEST(rows_of_a_prompt_do_not_depend_on_its_pieces) {
  for_compute_types([](const DeviceCase& device, Backend&) {
    for (const std::int32_t heads : {2, 10}) {
      const AttentionCase host({heads, 2, 64, {{0, 150}, {0, 20}}}, device.compute());
      const Floats together = DevicePages(host, device).run(host.all(), false).out;
      const std::size_t first[] = {0};
      for (const std::int32_t piece : {7, 64, 73}) {
        const DevicePages pages(host, device);
        Floats out;
        for (std::int32_t past = 0; past < 150;) {
          // One row alone would be decoded.
          const std::int32_t rows = 150 - past < piece + 2 ? 150 - past : piece;
          const Floats part = pages
                                  .run(host.rows(first,
                                                 [&](std::size_t) {
                                                   return AttentionShape::Sequence{past, rows};
                                                 }),
                                       false)
                                  .out;
          out.insert(out.end(), part.begin(), part.end());
          past += rows;
        }
        CHECK(same_bits(out.data(), together.data(), out.size()));
      }
    }
  });
}

}  // namespace
}  // namespace hindsearch::testing
