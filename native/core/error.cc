#include "native/core/error.h"

namespace hindsearch {

Error::Error(std::string_view code, const std::string& message)
    : std::runtime_error(message), code_(code) {}

}  // namespace hindsearch
