#include "native/addon/arguments.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "native/core/error.h"

namespace hindsearch {
namespace {

constexpr std::size_t kShownCharacters = 40;

const char* typed_array_name(napi_typedarray_type type) {
  switch (type) {
    case napi_int8_array:
      return "an Int8Array";
    case napi_uint8_array:
      return "a Uint8Array";
    case napi_uint8_clamped_array:
      return "a Uint8ClampedArray";
    case napi_int16_array:
      return "an Int16Array";
    case napi_uint16_array:
      return "a Uint16Array";
    case napi_int32_array:
      return "an Int32Array";
    case napi_uint32_array:
      return "a Uint32Array";
    case napi_float32_array:
      return "a Float32Array";
    case napi_float64_array:
      return "a Float64Array";
    case napi_bigint64_array:
      return "a BigInt64Array";
    case napi_biguint64_array:
      return "a BigUint64Array";
    default:
      return "a typed array";
  }
}

// What a value is, without running any code of the user's (no toString, no getters).
std::string describe(Napi::Value value) {
  switch (value.Type()) {
    case napi_undefined:
      return "undefined";
    case napi_null:
      return "null";
    case napi_boolean:
      return value.As<Napi::Boolean>().Value() ? "true" : "false";
    case napi_number:
      return to_text(value.As<Napi::Number>().DoubleValue());
    case napi_bigint:
      return "a BigInt";
    case napi_symbol:
      return "a symbol";
    case napi_function:
      return "a function";
    case napi_external:
      return "an external value";
    case napi_string: {
      // Cut in UTF-16, where a cut cannot make the text invalid beyond one replaced character.
      std::u16string text = value.As<Napi::String>().Utf16Value();
      const bool cut = text.size() > kShownCharacters;
      if (cut) text.resize(kShownCharacters);
      return '"' + Napi::String::New(value.Env(), text).Utf8Value() + (cut ? "…\"" : "\"");
    }
    case napi_object:
      break;
  }
  if (value.IsTypedArray()) return typed_array_name(value.As<Napi::TypedArray>().TypedArrayType());
  if (value.IsArray()) return "an Array";
  return "an object";
}

}  // namespace

std::string to_text(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  char text[32];
  std::snprintf(text, sizeof text,
                std::fabs(number) < 1e15 && number == std::floor(number) ? "%.0f" : "%.9g", number);
  return text;
}

Argument::Argument(Napi::Value value, std::string name) : value_(value), name_(std::move(name)) {}

bool Argument::given() const { return !value_.IsUndefined() && !value_.IsNull(); }

void Argument::refuse(const std::string& expected) const {
  throw Error(code::kInvalidArgument,
              name_ + " must be " + expected + ", not " + describe(value_) + ".");
}

Argument Argument::operator[](const char* key) const {
  if (!value_.IsObject()) refuse("an object");
  return Argument(value_.As<Napi::Object>().Get(key), name_ + "." + key);
}

bool Argument::boolean() const {
  if (!value_.IsBoolean()) refuse("true or false");
  return value_.As<Napi::Boolean>().Value();
}

double Argument::number(double low, double high) const {
  const double number = value_.IsNumber() ? value_.As<Napi::Number>().DoubleValue() : NAN;
  // Written so that NaN fails.
  if (!(number >= low && number <= high)) {
    refuse("a number from " + to_text(low) + " to " + to_text(high));
  }
  return number;
}

std::int64_t Argument::integer(std::int64_t low, std::int64_t high) const {
  const double number = value_.IsNumber() ? value_.As<Napi::Number>().DoubleValue() : NAN;
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high) &&
        number == std::floor(number))) {
    refuse("a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<std::int64_t>(number);
}

std::uint64_t Argument::uint64() const {
  constexpr const char* kExpected = "a BigInt from 0n to 2n ** 64n - 1n";
  if (!value_.IsBigInt()) refuse(kExpected);
  bool lossless = false;
  const std::uint64_t number = value_.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) refuse(kExpected);
  return number;
}

std::string Argument::string() const {
  if (!value_.IsString()) refuse("a string");
  return value_.As<Napi::String>().Utf8Value();
}

std::string Argument::path() const {
  std::string path = value_.IsString() ? string() : "";
  if (path.empty() || path.find('\0') != std::string::npos) refuse("the path of a file");
  return path;
}

template <class Element>
std::vector<Element> Argument::typed_array(napi_typedarray_type type, const char* expected) const {
  if (!value_.IsTypedArray() || value_.As<Napi::TypedArray>().TypedArrayType() != type)
    refuse(expected);
  // Length and address are asked for in one call and used before JavaScript can run. A detached
  // array has length 0.
  const auto array = value_.As<Napi::TypedArrayOf<Element>>();
  std::vector<Element> elements(array.ElementLength());
  if (!elements.empty())
    std::memcpy(elements.data(), array.Data(), elements.size() * sizeof(Element));
  return elements;
}

std::vector<std::int32_t> Argument::int32_array() const {
  return typed_array<std::int32_t>(napi_int32_array, "an Int32Array");
}
std::vector<std::uint32_t> Argument::uint32_array() const {
  return typed_array<std::uint32_t>(napi_uint32_array, "a Uint32Array");
}
std::vector<float> Argument::float32_array() const {
  return typed_array<float>(napi_float32_array, "a Float32Array");
}
std::vector<std::uint8_t> Argument::uint8_array() const {
  return typed_array<std::uint8_t>(napi_uint8_array, "a Uint8Array");
}

std::size_t Argument::choice_index(const std::vector<std::string_view>& words) const {
  const std::string word = value_.IsString() ? string() : "";
  std::string expected;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (word == words[i]) return i;
    expected += (i == 0                  ? "\""
                 : i + 1 == words.size() ? " or \""
                                         : ", \"") +
                std::string(words[i]) + '"';
  }
  refuse(expected);
}

}  // namespace hindsearch
