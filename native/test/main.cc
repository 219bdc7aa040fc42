#include <cstdio>
#include <exception>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch::testing {
namespace {

struct Case {
  const char* name;
  void (*body)();
};

// A function-local static: tests register themselves before main, in no promised order.
std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

}  // namespace

bool register_test(const char* name, void (*body)()) {
  cases().push_back({name, body});
  return true;
}

int run_all() {
  int failed = 0;
  for (const Case& test : cases()) {
    try {
      test.body();
    } catch (const std::exception& error) {
      ++failed;
      std::fprintf(stderr, "FAILED %s\n  %s\n", test.name, error.what());
    }
  }
  std::fprintf(stderr, "%zu passed, %d failed\n", cases().size() - failed, failed);
  return failed == 0 && !cases().empty() ? 0 : 1;
}

}  // namespace hindsearch::testing

int main() { return hindsearch::testing::run_all(); }
