// Warp operations beyond the shuffles.
#include <bit>

#include "native/test/cuda_host/host_model.h"

namespace host_model {

unsigned ballot(unsigned mask, bool predicate, const char* what, const Location& where) {
  struct Payload {
    bool in;
    unsigned out;
  } payload{predicate, 0};
  sync_warp(
      mask, &payload,
      [](unsigned lanes, void* const* payloads) {
        unsigned all = 0;
        for (unsigned i = 0; i < 32; ++i) {
          if (lanes >> i & 1 && static_cast<Payload*>(payloads[i])->in) all |= 1u << i;
        }
        for (unsigned i = 0; i < 32; ++i) {
          if (lanes >> i & 1) static_cast<Payload*>(payloads[i])->out = all;
        }
      },
      what, where);
  return payload.out;
}

namespace {

struct Fragments {
  float* c;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

float half_of(std::uint32_t pair, int half) {
  return std::bit_cast<float>(half == 0 ? pair << 16 : pair & 0xffff0000u);
}

// Element (row, column) of the fragment layouts that mma.h states.
float a_at(void* const* payloads, int row, int column) {
  const int lane = row % 8 * 4 + column % 8 / 2;
  const int pair = row / 8 + column / 8 * 2;
  return half_of(static_cast<Fragments*>(payloads[lane])->a[pair], column % 2);
}
float b_at(void* const* payloads, int row, int column) {
  const int lane = column * 4 + row % 8 / 2;
  return half_of(static_cast<Fragments*>(payloads[lane])->b[row / 8], row % 2);
}

void multiply(unsigned, void* const* payloads) {
  float a[16][16], b[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) a[i][k] = a_at(payloads, i, k);
  }
  for (int k = 0; k < 16; ++k) {
    for (int j = 0; j < 8; ++j) b[k][j] = b_at(payloads, k, j);
  }
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      float& c = static_cast<Fragments*>(payloads[i % 8 * 4 + j / 2])->c[i / 8 * 2 + j % 2];
      // Products of two bf16 are exact in f32. The device promises no order of the additions.
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[i][k] * b[k][j];
      c += sum;
    }
  }
}

}  // namespace

void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const Location& where) {
  Fragments fragments{c, a, b};
  sync_warp(0xffffffff, &fragments, multiply, "mma_16x8x16", where);
}

}  // namespace host_model
