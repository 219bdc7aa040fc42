#pragma once

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "native/core/error.h"

// A test framework of one page. A test file says
//
//   TEST(softmax_sums_to_one) { CHECK_NEAR(sum, 1.0, 1e-6); }
//
// and nothing else; main.cc runs what was registered. The first failed check ends its test.
namespace hindsearch::testing {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns a value so that it can initialise a static.
bool register_test(const char* name, void (*body)());

template <class... Parts>
[[noreturn]] void fail(const char* file, int line, const Parts&... parts) {
  std::ostringstream message;
  message.precision(17);
  message << file << ":" << line << ": ";
  (message << ... << parts);
  throw Failure(message.str());
}

// Runs `body` and returns the message of the Error it must throw with `code`.
template <class Body>
std::string expect_error(const char* file, int line, std::string_view code, Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.code() != code) fail(file, line, "expected ", code, ", got ", error.code(), ": ", error.what());
    return error.what();
  }
  fail(file, line, "expected ", code, ", nothing was thrown");
}

}  // namespace hindsearch::testing

#define TEST(name)                                                                            \
  static void test_##name();                                                                  \
  [[maybe_unused]] static const bool registered_##name =                                      \
      ::hindsearch::testing::register_test(#name, test_##name);                               \
  static void test_##name()

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) ::hindsearch::testing::fail(__FILE__, __LINE__, "not true: " #condition); \
  } while (false)

#define CHECK_EQ(actual, expected)                                                            \
  do {                                                                                        \
    const auto& actual_value = (actual);                                                      \
    const auto& expected_value = (expected);                                                  \
    if (!(actual_value == expected_value))                                                    \
      ::hindsearch::testing::fail(__FILE__, __LINE__, #actual " is ", actual_value,           \
                                  ", expected ", expected_value);                             \
  } while (false)

// |actual - expected| <= tolerance; NaN fails.
#define CHECK_NEAR(actual, expected, tolerance)                                               \
  do {                                                                                        \
    const double actual_value = (actual);                                                     \
    const double expected_value = (expected);                                                 \
    if (!(std::abs(actual_value - expected_value) <= (tolerance)))                            \
      ::hindsearch::testing::fail(__FILE__, __LINE__, #actual " is ", actual_value,           \
                                  ", expected ", expected_value, " +- ", (tolerance));        \
  } while (false)

// The message of the Error with this code that the expression must throw.
#define CHECK_ERROR(code, expression) \
  ::hindsearch::testing::expect_error(__FILE__, __LINE__, (code), [&] { (void)(expression); })
