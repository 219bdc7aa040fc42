#include "native/rollout/stop_matcher.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "native/test/testing.h"

namespace hindsearch {
namespace {

struct Found {
  std::size_t token;
  std::int32_t index;
  std::int32_t overhang;
  bool operator==(const Found&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Found& found) {
  return out << "{token " << found.token << ", stop " << found.index << ", overhang "
             << found.overhang << "}";
}

// The first token that completes a stop.
std::optional<Found> match(const std::vector<std::string>& stops,
                           const std::vector<std::string>& tokens) {
  StopMatcher matcher(stops);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(tokens[i].data());
    const StopMatch found = matcher.push(std::span(bytes, tokens[i].size()));
    if (found.index >= 0) return Found{i, found.index, found.overhang};
  }
  return std::nullopt;
}

// The stop rule read word by word: of all ends of stops in the text since the last wall, the
// earliest; among those that end there, the longest; among equal ones, the first listed.
std::optional<Found> slow_match(const std::vector<std::string>& stops,
                                const std::vector<std::string>& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) text.clear();
    const std::size_t before = text.size();
    text += tokens[i];
    for (std::size_t end = before + 1; end <= text.size(); ++end) {
      std::int32_t best = -1;
      for (std::size_t k = 0; k < stops.size(); ++k) {
        const bool ends_here = end >= stops[k].size() &&
                               text.compare(end - stops[k].size(), stops[k].size(), stops[k]) == 0;
        if (ends_here &&
            (best < 0 || stops[k].size() > stops[static_cast<std::size_t>(best)].size())) {
          best = static_cast<std::int32_t>(k);
        }
      }
      if (best >= 0) return Found{i, best, static_cast<std::int32_t>(text.size() - end)};
    }
  }
  return std::nullopt;
}

void check_found(const std::optional<Found>& found, const Found& expected) {
  CHECK(found.has_value());
  CHECK_EQ(*found, expected);
}

TEST(stop_in_one_token) {
  check_found(match({"</search>"}, {"<search>", "x", "</search>"}), {2, 0, 0});
}

TEST(stop_spans_tokens) {
  check_found(match({"</search>"}, {"a </", "sea", "rch", ">", "b"}), {3, 0, 0});
}

TEST(stop_spans_tokens_byte_by_byte_and_restarts_inside_itself) {
  check_found(match({"aab"}, {"a", "a", "a", "a", "b"}), {4, 0, 0});
  check_found(match({"abcabd"}, {"ab", "ca", "bc", "ab", "d!"}), {4, 0, 1});
}

TEST(stop_ends_inside_a_token) {
  check_found(match({"</search>"}, {"q</se", "arch>\n\nNow"}), {1, 0, 5});
}

TEST(stop_is_the_first_token) {
  check_found(match({"</answer>", "<search>"}, {"<search>", "x"}), {0, 1, 0});
}

TEST(one_stop_is_a_suffix_of_another_the_longest_wins) {
  check_found(match({"search>", "</search>"}, {"x</search>"}), {0, 1, 0});
  check_found(match({"</search>", "search>"}, {"x</search>"}), {0, 0, 0});
  check_found(match({"</search>", "search>"}, {"x<search>"}), {0, 1, 0});
}

TEST(one_stop_is_a_prefix_of_another_the_first_to_end_wins) {
  check_found(match({"</search>", "</s"}, {"</search>"}), {0, 1, 6});
  check_found(match({"</search>", "</s>"}, {"</search>"}), {0, 0, 0});
  check_found(match({"</search>", "</s>"}, {"</s", ">"}), {1, 1, 0});
}

TEST(of_several_stops_in_one_token_the_one_that_ends_first_wins) {
  check_found(match({"</answer>", "</search>"}, {"a</search> b</answer>"}), {0, 1, 11});
}

TEST(equal_stops_report_the_first) { check_found(match({"x", "\n", "\n"}, {"\n"}), {0, 1, 0}); }

TEST(a_token_without_bytes_is_a_wall) {
  CHECK(!match({"</search>"}, {"</sea", "", "rch>"}));
  check_found(match({"</search>"}, {"</sea", "", "</search>"}), {2, 0, 0});
}

TEST(nothing_before_the_segment_matches) {
  // A matcher starts empty with each segment; what the caller supplied never reaches it.
  CHECK(!match({"</search>"}, {"arch>"}));
}

TEST(no_stops_never_match) { CHECK(!match({}, {"a", "", "b"})); }

TEST(characters_split_over_tokens) {
  const std::string face = "\xF0\x9F\x98\x80";  // one character of four bytes
  check_found(match({face}, {face.substr(0, 1), face.substr(1, 2), face.substr(3)}), {2, 0, 0});
  // The stop ends inside the token that ends in the middle of another character.
  check_found(match({"\xC3\xA9"}, {"caf\xC3", "\xA9\xF0\x9F"}), {1, 0, 2});
  // Equal continuation bytes under another lead byte are another character.
  CHECK(!match({"\xC3\xA9"}, {"\xC4", "\xA9"}));
}

TEST(zero_bytes_are_bytes) {
  check_found(match({std::string("\0b", 2)}, {std::string("a\0", 2), "b"}), {1, 0, 0});
}

TEST(a_long_segment_keeps_matching) {
  std::vector<std::string> tokens(5000, "ab");
  tokens.push_back("c");
  check_found(match({"ababc"}, tokens), {5000, 0, 0});
}

TEST(agrees_with_the_slow_rule_on_random_texts) {
  std::srand(7);
  const auto random_text = [](int most) {
    std::string text;
    for (int i = std::rand() % (most + 1); i > 0; --i)
      text.push_back(static_cast<char>('a' + std::rand() % 2));
    return text;
  };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops, tokens;
    for (int k = std::rand() % 4; k >= 0; --k)
      stops.push_back(std::string(1, 'a').append(random_text(4)));
    for (int k = 0; k < 6; ++k) tokens.push_back(random_text(3));
    const auto expected = slow_match(stops, tokens);
    const auto actual = match(stops, tokens);
    CHECK_EQ(actual.has_value(), expected.has_value());
    if (expected) CHECK_EQ(*actual, *expected);
    found += expected.has_value();
  }
  CHECK(found > 10000);  // both outcomes are well represented
  CHECK(found < 19990);
}

}  // namespace
}  // namespace hindsearch
