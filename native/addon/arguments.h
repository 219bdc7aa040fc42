// Checked conversion of JavaScript values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native/addon/node_api.h"

namespace hindsearch {

// A value and the name the user knows it by. Every conversion copies, at once and on the JavaScript
// thread, because JavaScript may detach or overwrite an array whenever it runs again; every failure
// is Error(INVALID_ARGUMENT) with name, expectation and what was found.
class Argument {
 public:
  Argument(Napi::Value value, std::string name);

  const std::string& name() const { return name_; }
  Napi::Value value() const { return value_; }
  bool given() const;  // neither undefined nor null

  // Property of an object: "options" gives "options.temperature".
  Argument operator[](const char* key) const;
  // body(element) for the elements of an array, in order: "stops" gives "stops[0]". What the body
  // refuses ends it, before the rest of an array of absurd length is read.
  template <class Body>
  void each(Body&& body) const {
    if (!value_.IsArray()) refuse("an Array");
    const auto array = value_.As<Napi::Array>();
    // The length is read anew each time: a getter among the elements may shorten the array.
    for (std::uint32_t i = 0; i < array.Length(); ++i) {
      const Napi::HandleScope scope(value_.Env());
      body(Argument(array.Get(i), name_ + "[" + std::to_string(i) + "]"));
    }
  }

  bool boolean() const;
  // Finite and in [low, high].
  double number(double low, double high) const;
  // Whole and in [low, high]; the bounds are exact in a double.
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  // A BigInt in [0, 2^64).
  std::uint64_t uint64() const;
  std::string string() const;  // as UTF-8
  // A string without NUL, as the system takes it.
  std::string path() const;

  // A typed array of exactly this element type.
  std::vector<std::int32_t> int32_array() const;
  std::vector<std::uint32_t> uint32_array() const;
  std::vector<float> float32_array() const;
  std::vector<std::uint8_t> uint8_array() const;

  template <class Value>
  using Choices = std::vector<std::pair<std::string_view, Value>>;
  // One of the listed words.
  template <class Value>
  Value choice(const Choices<Value>& choices) const {
    std::vector<std::string_view> words;
    for (const auto& [word, value] : choices) words.push_back(word);
    return choices[choice_index(words)].second;
  }

  // Throws Error(INVALID_ARGUMENT): "<name> must be <expected>, not <what it is>."
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  std::size_t choice_index(const std::vector<std::string_view>& words) const;
  template <class Element>
  std::vector<Element> typed_array(napi_typedarray_type type, const char* expected) const;

  Napi::Value value_;
  std::string name_;
};

// A number for a message: whole ones without a fraction, others with up to nine digits.
std::string to_text(double number);

}  // namespace hindsearch
