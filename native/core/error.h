#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace hindsearch {

// Stable names of what went wrong; the same words as HindsearchErrorCode in lib/errors.ts.
namespace code {
inline constexpr std::string_view kInvalidArgument = "INVALID_ARGUMENT";
inline constexpr std::string_view kOutOfMemory = "OUT_OF_MEMORY";
inline constexpr std::string_view kInternal = "INTERNAL";
inline constexpr std::string_view kAborted = "ABORTED";
inline constexpr std::string_view kUnsupportedModel = "UNSUPPORTED_MODEL";
inline constexpr std::string_view kInvalidCheckpoint = "INVALID_CHECKPOINT";
inline constexpr std::string_view kIo = "IO";
inline constexpr std::string_view kNonFinite = "NON_FINITE";
inline constexpr std::string_view kContextFull = "CONTEXT_FULL";
inline constexpr std::string_view kDisposed = "DISPOSED";
inline constexpr std::string_view kDeviceUnavailable = "DEVICE_UNAVAILABLE";
inline constexpr std::string_view kDeviceFailed = "DEVICE_FAILED";
}  // namespace code

// The one exception of the native side. The message says what, where, expected, found, what to do.
class Error : public std::runtime_error {
 public:
  Error(std::string_view code, const std::string& message);

  const std::string& code() const noexcept { return code_; }

 private:
  std::string code_;
};

}  // namespace hindsearch
