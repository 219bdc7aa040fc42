#pragma once

#include <functional>

namespace hindsearch {

// Starts a thread that nobody joins and that ends with the process. It takes no signals, but those
// of its own faults: signals belong to the threads of the host process. Throws Error(OUT_OF_MEMORY)
// naming `what`.
void start_thread(const char* what, std::function<void()> body);

}  // namespace hindsearch
