// What the rest asks of "the device" where the processor is it.
#include "native/backend/cpu/cpu_backend.h"
#include "native/backend/cpu/isa.h"
#include "native/backend/cpu/memory.h"

namespace hindsearch {

std::unique_ptr<Backend> make_backend(ComputeType compute) {
  return cpu::make_cpu_backend(compute, cpu::active_kernels());
}

MemoryUse memory_use() { return cpu::memory_use(); }

const char* instruction_set() { return cpu::active_kernels().name; }

DeviceInfo device_info() { return {.description = instruction_set(), .unavailable = {}}; }

}  // namespace hindsearch
