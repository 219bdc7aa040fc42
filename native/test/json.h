#pragma once

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace hindsearch::testing {

// JSON as the golden files use it. Numbers are doubles; the strings "inf", "-inf" and "nan" stand
// for what JSON has no words for.
class Json {
 public:
  static Json parse(const std::string& text) {
    const char* at = text.c_str();
    Json value = parse_value(at);
    skip_space(at);
    if (*at) throw std::runtime_error("JSON: text after the value");
    return value;
  }
  static Json load(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + path);
    return parse(std::string(std::istreambuf_iterator<char>(file), {}));
  }

  bool has(const std::string& key) const { return members_.contains(key); }
  const Json& operator[](const std::string& key) const {
    const auto found = members_.find(key);
    if (found == members_.end()) throw std::runtime_error("JSON: no key " + key);
    return found->second;
  }
  const Json& operator[](std::size_t i) const { return items_.at(i); }
  std::size_t size() const { return items_.size(); }
  const std::vector<Json>& items() const { return items_; }
  const std::map<std::string, Json>& members() const { return members_; }
  bool is_null() const { return kind_ == 'n'; }
  bool is_string() const { return kind_ == '"'; }
  bool is_array() const { return kind_ == '['; }

  const std::string& string() const {
    if (kind_ != '"') throw std::runtime_error("JSON: not a string");
    return string_;
  }
  bool boolean() const {
    if (kind_ != 'b') throw std::runtime_error("JSON: not a boolean");
    return number_ != 0;
  }
  double number() const {
    if (string_ == "inf") return std::numeric_limits<double>::infinity();
    if (string_ == "-inf") return -std::numeric_limits<double>::infinity();
    if (string_ == "nan") return std::nan("");
    if (kind_ != '0') throw std::runtime_error("JSON: not a number");
    return number_;
  }
  template <class T>
  std::vector<T> numbers() const {
    std::vector<T> result;
    for (const Json& item : items_) result.push_back(static_cast<T>(item.number()));
    return result;
  }

 private:
  static void skip_space(const char*& at) {
    while (std::isspace(static_cast<unsigned char>(*at))) ++at;
  }
  static bool take(const char*& at, const std::string& word) {
    if (std::strncmp(at, word.c_str(), word.size()) != 0) return false;
    at += word.size();
    return true;
  }
  static void expect(const char*& at, char c) {
    skip_space(at);
    if (*at++ != c) throw std::runtime_error(std::string("JSON: expected ") + c);
  }
  static std::string parse_string(const char*& at) {
    expect(at, '"');
    std::string text;
    for (; *at != '"'; ++at) {
      if (!*at) throw std::runtime_error("JSON: string without end");
      if (*at == '\\') {
        if (*++at == 'u') {
          text += '?';  // only in prose, which no test reads
          at += 4;
          continue;
        }
        text += *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
      } else {
        text += *at;
      }
    }
    ++at;
    return text;
  }
  static Json parse_value(const char*& at) {
    skip_space(at);
    Json value;
    value.kind_ = *at;
    if (*at == '"') {
      value.string_ = parse_string(at);
    } else if (*at == '[') {
      ++at;
      for (skip_space(at); *at != ']'; skip_space(at)) {
        value.items_.push_back(parse_value(at));
        skip_space(at);
        if (*at != ']') expect(at, ',');
      }
      ++at;
    } else if (*at == '{') {
      ++at;
      for (skip_space(at); *at != '}'; skip_space(at)) {
        std::string key = (skip_space(at), parse_string(at));
        expect(at, ':');
        value.members_.emplace(std::move(key), parse_value(at));
        skip_space(at);
        if (*at != '}') expect(at, ',');
      }
      ++at;
    } else if (take(at, "true") || take(at, "false")) {
      value.number_ = at[-2] == 'u';
      value.kind_ = 'b';
    } else if (take(at, "null")) {
      value.kind_ = 'n';
    } else {
      char* end;
      value.number_ = std::strtod(at, &end);
      if (end == at) throw std::runtime_error("JSON: not a value");
      at = end;
      value.kind_ = '0';
    }
    return value;
  }

  char kind_ = 'n';
  double number_ = 0;
  std::string string_;
  std::vector<Json> items_;
  std::map<std::string, Json> members_;
};

}  // namespace hindsearch::testing
