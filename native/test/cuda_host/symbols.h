#pragma once

#include <string>

namespace host_model {

// The name of a function of this program, or its address where the program has no symbols.
std::string symbol_name(const void* function);

}  // namespace host_model
