// Matrix products: against float64 over awkward shapes, and bit for bit against themselves.
#include <array>

#include "native/test/backends.h"
#include "native/test/reference.h"

namespace hindsearch::testing {
namespace {

struct Shape {
  std::size_t rows, n, k;
};

// Every tile height, partial panels, one column, one k, several k blocks, several row blocks.
std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (std::size_t rows = 1; rows <= 17; ++rows) out.push_back({rows, 53, 35});
  for (const std::size_t n : {1, 2, 15, 16, 17, 31, 47, 48, 49, 96, 97}) out.push_back({5, n, 33});
  for (const std::size_t k : {1, 2, 3, 16, 511, 513, 1023, 1024, 1025, 2100})
    out.push_back({3, 20, k});
  out.push_back({1, 1, 1});
  out.push_back({241, 50, 24});
  out.push_back({600, 70, 30});
  out.push_back({1100, 20, 17});
  return out;
}

// A chain of k products in f32 is off by a few ulp of its terms.
double tolerance(std::size_t k) { return 4e-7 * std::sqrt(static_cast<double>(k)) + 4e-7; }

Floats forward(Backend& backend, const Floats& x, const Floats& w, const Shape& s,
               const float* bias) {
  Floats y(s.rows * s.n, 7.0f);
  const auto packed =
      backend.pack(w.data(), static_cast<std::int64_t>(s.n), static_cast<std::int64_t>(s.k));
  backend.linear(as_operand(x.data(), packed->columns()), static_cast<std::int64_t>(s.rows),
                 *packed, bias_of(bias), y.data(), nullptr);
  return y;
}

TEST(linear_matches_float64) {
  for_backends([](Backend& backend) {
    for (const Shape& s : shapes()) {
      const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2), bias = normal(s.n, 3);
      const auto xs = reference::operands(x, backend.compute()),
                 ws = reference::operands(w, backend.compute());
      auto expected = reference::product(xs, reference::transpose(ws, s.n, s.k), s.rows, s.k, s.n);
      const double bound = tolerance(s.k);
      CHECK(relative_error(forward(backend, x, w, s, nullptr), expected) <= bound);

      auto biased = expected;
      for (std::size_t i = 0; i < biased.size(); ++i) biased[i] += bias[i % s.n];
      CHECK(relative_error(forward(backend, x, w, s, bias.data()), biased) <= bound);

      const Floats before = normal(s.rows * s.n, 4);
      Floats y(before.size(), 7.0f), in_place = before;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
      const auto packed =
          backend.pack(w.data(), static_cast<std::int64_t>(s.n), static_cast<std::int64_t>(s.k));
      CHECK_EQ(packed->rows(), static_cast<std::int64_t>(s.n));
      CHECK_EQ(packed->columns(), static_cast<std::int64_t>(s.k));
      CHECK(packed->bytes() >= s.n * s.k * (backend.compute() == ComputeType::f32 ? 4 : 2));
      const Operand xs_operand = as_operand(x.data(), packed->columns());
      const auto rows = static_cast<std::int64_t>(s.rows);
      backend.linear(xs_operand, rows, *packed, rows_of(before.data()), y.data(), nullptr);
      CHECK(relative_error(y, expected) <= bound);
      backend.linear(xs_operand, rows, *packed, rows_of(in_place.data()), in_place.data(), nullptr);
      CHECK(same_bits(in_place, y));
    }
  });
}

TEST(repack_replaces_the_weights) {
  for_backends([](Backend& backend) {
    const Shape s{4, 33, 19};
    const Floats x = normal(s.rows * s.k, 1), old = normal(s.n * s.k, 2),
                 fresh = normal(s.n * s.k, 3);
    const auto packed = backend.pack(old.data(), 33, 19);
    backend.repack(*packed, fresh.data());
    Floats y(s.rows * s.n);
    backend.linear(as_operand(x.data(), 19), 4, *packed, {}, y.data(), nullptr);
    CHECK(same_bits(y, forward(backend, x, fresh, s, nullptr)));
  });
}

TEST(linear_backward_matches_float64) {
  for_backends([](Backend& backend) {
    for (const Shape& s : shapes()) {
      const auto rows = static_cast<std::int64_t>(s.rows), n = static_cast<std::int64_t>(s.n),
                 k = static_cast<std::int64_t>(s.k);
      const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2),
                   d_y = normal(s.rows * s.n, 3);
      const auto xs = reference::operands(x, backend.compute()),
                 ws = reference::operands(w, backend.compute()),
                 ds = reference::operands(d_y, backend.compute());

      const auto packed = backend.pack(w.data(), n, k);
      auto expected = reference::product(ds, ws, s.rows, s.n, s.k);
      Floats d_x(s.rows * s.k, 9.0f);
      backend.linear_backward_input(as_operand(d_y.data(), n), rows, *packed, w.data(), d_x.data());
      CHECK(relative_error(d_x, expected) <= tolerance(s.n));

      expected = reference::product(reference::transpose(ds, s.rows, s.n), xs, s.n, s.rows, s.k);
      Floats d_w = normal(s.n * s.k, 4), d_bias = normal(s.n, 5);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += d_w[i];
      std::vector<double> expected_bias = reference::widen(d_bias);
      for (std::size_t i = 0; i < d_y.size(); ++i) expected_bias[i % s.n] += d_y[i];
      backend.linear_backward_weight(as_operand(d_y.data(), n), as_operand(x.data(), k), rows, n, k,
                                     d_w.data(), d_bias.data());
      CHECK(relative_error(d_w, expected) <= tolerance(s.rows));
      CHECK(relative_error(d_bias, expected_bias) <= tolerance(s.rows));
    }
  });
}

// Large enough for several threads, several blocks of rows and of k.
constexpr Shape kLarge{250, 70, 1100};

TEST(a_row_does_not_depend_on_its_batch) {
  for_backends([](Backend& backend) {
    const Shape s = kLarge;
    const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2), bias = normal(s.n, 3);
    const Floats together = forward(backend, x, w, s, bias.data());
    const auto packed =
        backend.pack(w.data(), static_cast<std::int64_t>(s.n), static_cast<std::int64_t>(s.k));
    std::size_t row = 0;
    for (std::size_t batch = 1; row < s.rows; batch = batch % 19 + 1) {
      const std::size_t count = std::min(batch, s.rows - row);
      Floats y(count * s.n);
      backend.linear(as_operand(&x[row * s.k], packed->columns()), static_cast<std::int64_t>(count),
                     *packed, bias_of(bias.data()), y.data(), nullptr);
      CHECK(same_bits(y.data(), &together[row * s.n], count * s.n));
      row += count;
    }
    // Permuted: row r moves to r * 7 mod rows.
    Floats permuted(x.size());
    for (std::size_t r = 0; r < s.rows; ++r) {
      std::copy_n(&x[r * s.k], s.k, &permuted[r * 7 % s.rows * s.k]);
    }
    const Floats mixed = forward(backend, permuted, w, s, bias.data());
    for (std::size_t r = 0; r < s.rows; ++r) {
      CHECK(same_bits(&mixed[r * 7 % s.rows * s.n], &together[r * s.n], s.n));
    }
  });
}

// Also panels that do not come out even between threads, the last of them a part, and rows that are
// converted in several goes.
constexpr Shape kDivided[] = {kLarge, {64, 250, 600}, {40, 130, 900}, {700, 130, 2300}};

void check_threads(const Shape& s) {
  for_backends([&](Backend& backend) {
    const auto rows = static_cast<std::int64_t>(s.rows), n = static_cast<std::int64_t>(s.n),
               k = static_cast<std::int64_t>(s.k);
    const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2),
                 d_y = normal(s.rows * s.n, 3);
    const auto packed = backend.pack(w.data(), n, k);
    std::array<Floats, 4> first;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      std::array<Floats, 4> result = {forward(backend, x, w, s, nullptr), Floats(x.size()),
                                      Floats(w.size()), Floats(s.n)};
      backend.linear_backward_input(as_operand(d_y.data(), n), rows, *packed, w.data(),
                                    result[1].data());
      backend.linear_backward_weight(as_operand(d_y.data(), n), as_operand(x.data(), k), rows, n, k,
                                     result[2].data(), result[3].data());
      if (threads == 1) first = result;
      for (std::size_t i = 0; i < result.size(); ++i) CHECK(same_bits(result[i], first[i]));
    }
  });
}

// The products that read `x` [rows, width]: as left factor, as right one, and transposed.
std::vector<Floats> products_of(Backend& backend, const Operand& x, std::int64_t rows,
                                std::int64_t width) {
  constexpr std::int64_t kOther = 20;
  const auto size = [](std::int64_t lines) { return static_cast<std::size_t>(lines * kOther); };
  const Floats weight = normal(size(width), 6), d = normal(size(rows), 7);
  const auto packed = backend.pack(weight.data(), kOther, width);
  std::vector<Floats> out = {Floats(size(rows)), Floats(size(width)), Floats(size(width)),
                             Floats(size(rows))};
  const Operand other = as_operand(d.data(), kOther);
  backend.linear(x, rows, *packed, {}, out[0].data(), nullptr);
  backend.linear_backward_weight(other, x, rows, kOther, width, out[1].data(), nullptr);
  backend.linear_backward_weight(x, other, rows, width, kOther, out[2].data(), nullptr);
  const auto transposed = backend.pack(weight.data(), width, kOther);
  backend.linear_backward_input(x, rows, *transposed, weight.data(), out[3].data());
  return out;
}

// What ops write for products alone is to every product what it would have been as floats.
void check_operands(const cpu::Kernels& kernels, ComputeType compute, std::int64_t rows,
                    std::int64_t width) {
  const auto backend = cpu::make_cpu_backend(compute, kernels),
             exact = cpu::make_cpu_backend(ComputeType::f32, kernels);
  const auto same = [&](const Operand& x, const Floats& floats, std::int64_t columns) {
    const auto actual = products_of(*backend, x, rows, columns),
               expected = products_of(*backend, as_operand(floats.data(), columns), rows, columns);
    for (std::size_t i = 0; i < actual.size(); ++i) CHECK(same_bits(actual[i], expected[i]));
  };
  const auto count = static_cast<std::size_t>(rows * width);
  const Floats gates = normal(2 * count, 1), d_out = normal(count, 2), norm = normal(count, 3);
  Floats out(count), floats(count), inv(static_cast<std::size_t>(rows)), other = inv;
  const Operand normed = backend->rms_norm_operand(d_out.data(), rows, width, norm.data(), 1e-6f,
                                                   out.data(), inv.data());
  exact->rms_norm({d_out.data(), rows, 1, width, width}, norm.data(), 1e-6f,
                  {floats.data(), rows, 1, width, width}, other.data());
  if (width % 2 == 0) CHECK_EQ(normed.rounded, compute == ComputeType::bf16);
  CHECK(same_bits(inv, other));
  same(normed, floats, width);

  exact->silu_gate(gates.data(), rows, width, floats.data());
  same(backend->silu_gate(gates.data(), rows, width, out.data()), floats, width);

  Floats d_gates = gates, activation = d_out, exact_d_gates = gates, exact_activation = d_out;
  const auto written = backend->silu_gate_backward(d_gates.data(), activation.data(), rows, width);
  exact->silu_gate_backward(exact_d_gates.data(), exact_activation.data(), rows, width);
  same(written.d_gate_up, exact_d_gates, 2 * width);
  same(written.out, exact_activation, width);
}

TEST(operands_are_rounded_as_products_round) {
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    for (const ComputeType compute : {ComputeType::f32, ComputeType::bf16}) {
      for (const auto& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {1, 1}, {5, 47}, {65, 8}, {1100, 96}, {40, 1051}, {1025, 34}}) {
        for (const int threads : {1, 2}) {
          const Threads scope(threads);
          check_operands(*kernels, compute, rows, width);
        }
      }
    }
  }
}

TEST(products_do_not_depend_on_threads) {
  for (const Shape& shape : kDivided) check_threads(shape);
}

TEST(f32_products_are_the_same_with_every_fused_instruction_set) {
  const Shape s{13, 55, 700};
  const Floats x = normal(s.rows * s.k, 1), w = normal(s.n * s.k, 2);
  Floats first;
  for (const cpu::Kernels* kernels : cpu::supported_kernels()) {
    if (kernels == &cpu::kPortable) continue;  // multiplies and adds in two roundings
    const Floats y = forward(*cpu::make_cpu_backend(ComputeType::f32, *kernels), x, w, s, nullptr);
    if (first.empty()) first = y;
    CHECK(same_bits(y, first));
  }
}

TEST(an_unknown_instruction_set_is_refused) {
  const std::string message = CHECK_ERROR(code::kInvalidArgument, cpu::find_kernels("mmx"));
  CHECK(message.find("portable") != std::string::npos);
  CHECK_EQ(std::string(cpu::find_kernels("portable").name), "portable");
}

}  // namespace
}  // namespace hindsearch::testing
