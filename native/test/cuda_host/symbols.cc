#include "native/test/cuda_host/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

namespace host_model {
namespace {

// dladdr knows exported functions alone, and kernels are rarely that.
std::string symbol_in(const char* path, std::uintptr_t address) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto read = [&]<class T>(std::size_t offset, T& out) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
    std::memcpy(&out, bytes.data() + offset, sizeof(T));
    return true;
  };
  Elf64_Ehdr header;
  if (!read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  for (std::size_t s = 0; s < header.e_shnum; ++s) {
    Elf64_Shdr table, names;
    if (!read(header.e_shoff + s * header.e_shentsize, table) || table.sh_type != SHT_SYMTAB ||
        !read(header.e_shoff + table.sh_link * std::size_t{header.e_shentsize}, names)) {
      continue;
    }
    Elf64_Sym symbol;
    for (std::size_t i = 0; i < table.sh_size / sizeof(symbol); ++i) {
      if (!read(table.sh_offset + i * sizeof(symbol), symbol)) break;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value != address) continue;
      const std::size_t name = names.sh_offset + symbol.st_name;
      if (name < bytes.size()) return bytes.data() + name;
    }
  }
  return {};
}

}  // namespace

std::string symbol_name(const void* function) {
  std::uintptr_t base = 0;
  // The program itself comes first.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;
      },
      &base);
  const std::string name =
      symbol_in("/proc/self/exe", reinterpret_cast<std::uintptr_t>(function) - base);
  if (name.empty()) {
    std::ostringstream text;
    text << "the kernel at " << function;
    return text.str();
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? demangled.get() : name;
}

}  // namespace host_model
