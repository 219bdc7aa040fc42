#include "native/core/error.h"

#include <exception>
#include <string>

#include "native/test/testing.h"

namespace hindsearch {

TEST(error_carries_code_and_message) {
  const std::string message =
      CHECK_ERROR(code::kInvalidArgument, throw Error(code::kInvalidArgument, "topK is 0, expected 1 or more"));
  CHECK_EQ(message, "topK is 0, expected 1 or more");
}

TEST(error_is_a_standard_exception) {
  try {
    throw Error(code::kIo, "disk full");
  } catch (const std::exception& error) {
    CHECK_EQ(std::string(error.what()), "disk full");
  }
}

}  // namespace hindsearch
