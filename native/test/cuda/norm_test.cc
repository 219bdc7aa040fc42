// RMSNorm against the CPU backend.
#include "native/test/cuda/head_rows.h"

namespace hindsearch::testing {
namespace {

// The CPU sums over sixteen lanes, a kernel over up to 512 threads: they differ by roundings.
constexpr double kTolerance = 2e-6;

// Each way of sharing a row: by part of a warp, a warp, a block; whole quads and single elements;
// few rows and so many that a group has several; the last wider than shared memory.
const std::vector<HeadRows> kShapes = {
    {1, 1, 1, 1},        {2, 1, 2, 2},       {3, 1, 12, 12},    {257, 1, 33, 40},
    {33, 4, 2, 8},       {257, 3, 32, 110},  {32, 14, 64, 900}, {3, 5, 96, 480},
    {257, 2, 128, 260},  {33, 1, 130, 130},  {2, 1, 252, 256},  {3, 1, 896, 896},
    {32, 1, 2048, 2052}, {1, 1, 4865, 4865}, {257, 1, 96, 96},  {2, 1, 25604, 25604},
    {3001, 1, 12, 12},   {6, 1, 8200, 8200}};

TEST(rms_norm_matches_the_cpu) {
  const auto cpu = reference_backend();
  const DeviceCase device(ComputeType::f32);
  for (const HeadRows& s : kShapes) {
    constexpr float kEpsilon = 1e-5f;
    // y is a view of its own, for an odd number of rows one that no whole quads fit.
    const HeadRows other{s.rows, s.heads, s.width, s.heads * s.width + s.rows % 2};
    const Floats x = normal(s.size(), 1, 3), weight = normal(s.width, 2);
    Floats y = other.poison(), inv_rms(s.rows * s.heads);
    cpu->rms_norm(s.view(x.data()), weight.data(), kEpsilon, other.view(y.data()), inv_rms.data());

    const auto device_x = device.upload(x), device_weight = device.upload(weight);
    const auto device_y = device.upload(other.poison()), device_inv = device.floats(inv_rms.size());
    cuda::rms_norm(device.context(), s.view(device_x.data()), device_weight.data(), kEpsilon,
                   other.view(device_y.data()), device_inv.data());
    const Floats actual = device_y.download();
    CHECK(error_of(actual, y) < kTolerance);
    CHECK(error_of(device_inv.download(), inv_rms) < kTolerance);

    // In place; and the last row alone, which another alignment must not change either.
    const auto in_place = device.upload(x);
    cuda::rms_norm(device.context(), s.view(static_cast<const float*>(in_place.data())),
                   device_weight.data(), kEpsilon, s.view(in_place.data()), nullptr);
    Floats shifted(1, 0.0f);
    shifted.insert(shifted.end(), x.end() - static_cast<std::ptrdiff_t>(s.stride), x.end());
    const auto alone = device.upload(shifted);
    const HeadRows one{1, s.heads, s.width, s.stride};
    cuda::rms_norm(device.context(), one.view(static_cast<const float*>(alone.data() + 1)),
                   device_weight.data(), kEpsilon, one.view(alone.data() + 1), nullptr);
    const Floats in_place_y = in_place.download(), alone_y = alone.download();
    for (std::size_t r = 0; r < s.rows; ++r) {
      CHECK(same_bits(&in_place_y[r * s.stride], &actual[r * other.stride], s.heads * s.width));
    }
    CHECK(same_bits(&alone_y[1], &actual[(s.rows - 1) * other.stride], s.heads * s.width));
  }
}

TEST(rms_norm_backward_matches_the_cpu) {
  const auto cpu = reference_backend();
  const DeviceCase device(ComputeType::f32);
  for (const HeadRows& s : kShapes) {
    // d_y and d_x are views of their own, now and then one that no whole quads fit.
    const std::size_t row = s.heads * s.width;
    const HeadRows ys{s.rows, s.heads, s.width, row + (s.rows % 3 == 0)};
    const HeadRows xs{s.rows, s.heads, s.width, row + s.rows % 2};
    const Floats x = normal(s.size(), 1, 3), weight = normal(s.width, 2),
                 d_y = normal(ys.size(), 3), before = normal(xs.size(), 4),
                 d_weight_before = normal(s.width, 5);
    Floats y(s.size()), inv_rms(s.rows * s.heads), d_x = before, d_weight = d_weight_before;
    cpu->rms_norm(s.view(x.data()), weight.data(), 1e-6f, s.view(y.data()), inv_rms.data());
    cpu->rms_norm_backward(s.view(x.data()), inv_rms.data(), weight.data(), ys.view(d_y.data()),
                           xs.view(d_x.data()), d_weight.data());

    const auto device_x = device.upload(x), device_inv = device.upload(inv_rms),
               device_weight = device.upload(weight), device_dy = device.upload(d_y);
    Floats first;
    for (int run = 0; run < 2; ++run) {
      const auto device_dx = device.upload(before), device_dw = device.upload(d_weight_before);
      cuda::rms_norm_backward(device.context(), s.view(static_cast<const float*>(device_x.data())),
                              device_inv.data(), device_weight.data(),
                              ys.view(static_cast<const float*>(device_dy.data())),
                              xs.view(device_dx.data()), device_dw.data());
      const Floats actual = device_dw.download();
      CHECK(error_of(device_dx.download(), d_x) < kTolerance);
      CHECK(error_of(actual, d_weight) < kTolerance);
      if (run == 0) first = actual;
      CHECK(same_bits(actual, first));
    }
  }
}

TEST(a_norm_of_huge_and_tiny_rows) {
  const auto cpu = reference_backend();
  const DeviceCase device(ComputeType::f32);
  const HeadRows s{2, 1, 64, 64};
  Floats x = normal(s.size(), 1);
  for (std::size_t i = 0; i < s.width; ++i) {
    x[i] *= 1e17f;
    x[s.width + i] *= 1e-12f;
  }
  const Floats weight = normal(s.width, 2), d_y = normal(s.size(), 3);
  Floats y(s.size()), inv_rms(s.rows), d_x(s.size()), d_weight(s.width);
  cpu->rms_norm(s.view(x.data()), weight.data(), 1e-6f, s.view(y.data()), inv_rms.data());
  cpu->rms_norm_backward(s.view(x.data()), inv_rms.data(), weight.data(), s.view(d_y.data()),
                         s.view(d_x.data()), d_weight.data());
  const auto device_x = device.upload(x), device_w = device.upload(weight),
             device_dy = device.upload(d_y), device_y = device.upload(s.poison()),
             device_inv = device.floats(s.rows), device_dx = device.upload(Floats(s.size())),
             device_dw = device.upload(Floats(s.width));
  const ConstHeadsView xs = s.view(static_cast<const float*>(device_x.data()));
  cuda::rms_norm(device.context(), xs, device_w.data(), 1e-6f, s.view(device_y.data()),
                 device_inv.data());
  cuda::rms_norm_backward(device.context(), xs, device_inv.data(), device_w.data(),
                          s.view(static_cast<const float*>(device_dy.data())),
                          s.view(device_dx.data()), device_dw.data());
  const Floats actual_y = device_y.download(), actual_dx = device_dx.download();
  for (std::size_t r = 0; r < 2; ++r) {
    const auto row = [&](const Floats& from) {
      return Floats(&from[r * s.width], &from[r * s.width] + s.width);
    };
    CHECK(error_of(row(actual_y), row(y)) < kTolerance);
    CHECK(error_of(row(actual_dx), row(d_x)) < kTolerance);
  }
  CHECK(error_of(device_dw.download(), d_weight) < kTolerance);
}

}  // namespace
}  // namespace hindsearch::testing
