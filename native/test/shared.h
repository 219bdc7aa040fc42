#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "native/test/testing.h"

namespace hindsearch::testing {

// The folder of golden numbers and data that is not part of the repository: $HINDSEARCH_SHARED, or
// ../shared beside it. Absent: says so and gives nothing, or, with HINDSEARCH_REQUIRE_SHARED=1,
// throws.
inline std::optional<std::string> shared_folder(const char* test) {
  const char* set = std::getenv("HINDSEARCH_SHARED");
  const std::filesystem::path folder =
      set ? set : std::filesystem::path(__FILE__).parent_path() / "../../../shared";
  if (std::filesystem::exists(folder)) return folder.string();
  const char* required = std::getenv("HINDSEARCH_REQUIRE_SHARED");
  if (required && std::string(required) == "1") {
    throw std::runtime_error("HINDSEARCH_REQUIRE_SHARED=1, but there is no folder " +
                             folder.string());
  }
  std::fprintf(stderr, "SKIPPED %s (needs the shared folder: set HINDSEARCH_SHARED)\n", test);
  return std::nullopt;
}

}  // namespace hindsearch::testing

// A TEST whose body sees `shared`, the path of the folder.
#define SHARED_TEST(name)                                                \
  static void shared_test_##name(const std::string& shared);             \
  TEST(name) {                                                           \
    if (const auto folder = ::hindsearch::testing::shared_folder(#name)) \
      shared_test_##name(*folder);                                       \
  }                                                                      \
  static void shared_test_##name(const std::string& shared)
