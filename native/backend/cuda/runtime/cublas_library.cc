#include "native/backend/cuda/runtime/cublas_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "native/core/error.h"

namespace hindsearch::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "HINDSEARCH_CUBLAS";

// The newest first: with a driver too old for it no handle is given, and the next is tried.
constexpr std::array kNames{"libcublas.so.13", "libcublas.so.12", "libcublas.so"};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Folders in `parent` whose names begin with `prefix`, in order; empty where there is no such
// parent.
std::vector<fs::path> folders(const fs::path& parent, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void add_toolkit(std::vector<fs::path>& found, const fs::path& root) {
  found.push_back(root / "lib64");
  for (const fs::path& target : folders(root / "targets", "")) found.push_back(target / "lib");
}

// pip's nvidia-cublas-cu12 and nvidia-cublas below <prefix>/lib/python3.*/<packages>.
void add_python(std::vector<fs::path>& found, const fs::path& prefix) {
  for (const fs::path& python : folders(prefix / "lib", "python3")) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      found.push_back(python / packages / "nvidia/cu13/lib");
      found.push_back(python / packages / "nvidia/cublas/lib");
    }
  }
}

std::vector<fs::path> places() {
  std::vector<fs::path> found;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string root = variable(name); !root.empty()) add_toolkit(found, root);
  }
  for (const fs::path& root : folders("/usr/local", "cuda")) add_toolkit(found, root);
  if (const std::string root = variable("VIRTUAL_ENV"); !root.empty()) add_python(found, root);
  if (const std::string root = variable("CONDA_PREFIX"); !root.empty()) {
    found.push_back(fs::path(root) / "lib");
    add_python(found, root);
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    add_python(found, fs::path(home) / ".local");
  }
  add_python(found, "/usr/local");
  add_python(found, "/usr");
  return found;
}

// pip's folder is on nobody's path, so there the library's neighbour has to be open before it is.
void open_neighbour(const fs::path& file) {
  std::string name = file.filename().string();
  const std::string plain = "libcublas.so";
  if (!file.has_parent_path() || !name.starts_with(plain)) return;
  name.replace(0, plain.size(), "libcublasLt.so");
  // Where it fails, opening the library itself will say so.
  dlopen((file.parent_path() / name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
void bind(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
}

// 120405 is 12.4.5.
std::string version_name(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// The library's handle and functions, or why there are none.
std::optional<CublasLibrary> open(const fs::path& file, std::string& reasons) {
  const auto refused = [&](const std::string& reason) {
    reasons += "\n  " + reason;
    return std::nullopt;
  };
  open_neighbour(file);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refused(dlerror());

  CublasLibrary found{};
  CublasApi& api = found.api;
  std::string missing;
  bind(library, "cublasCreate_v2", api.create, missing);
  bind(library, "cublasDestroy_v2", api.destroy, missing);
  bind(library, "cublasGetVersion_v2", api.version, missing);
  bind(library, "cublasSetStream_v2", api.set_stream, missing);
  bind(library, "cublasSetWorkspace_v2", api.set_workspace, missing);
  bind(library, "cublasGemmEx", api.gemm, missing);
  bind(library, "cublasGetStatusString", api.status_name, missing);
  if (!missing.empty()) {
    dlclose(library);
    return refused(file.string() + ": it lacks " + missing);
  }
  if (const CublasApi::Status status = api.create(&found.handle); status != 0) {
    const std::string name = api.status_name(status);
    dlclose(library);
    return refused(file.string() + ": it gives no handle: " + name +
                   " (the driver is too old for it, or the device's memory is full)");
  }
  int version = 0;
  api.version(found.handle, &version);
  found.version = version_name(version);
  Dl_info info{};
  found.path =
      dladdr(reinterpret_cast<void*>(api.create), &info) != 0 ? info.dli_fname : file.string();
  return found;
}

[[noreturn]] void give_up(const std::string& reasons) {
  throw Error(code::kDeviceUnavailable,
              "cuBLAS 12 or 13, which multiplies matrices on the GPU, was not found. Install the "
              "CUDA toolkit or one of pip's packages nvidia-cublas (13) and nvidia-cublas-cu12, or "
              "set HINDSEARCH_CUBLAS to the library's file. Tried:" +
                  reasons);
}

}  // namespace

CublasLibrary open_cublas() {
  std::string reasons;
  // Who names a file wants no other.
  if (const std::string file = variable(kFile); !file.empty()) {
    if (auto found = open(file, reasons)) return *std::move(found);
    give_up(reasons + " (from HINDSEARCH_CUBLAS)");
  }
  for (const char* name : kNames) {
    if (auto found = open(name, reasons)) return *std::move(found);
  }
  const std::vector<fs::path> searched = places();
  for (const char* name : kNames) {
    for (const fs::path& folder : searched) {
      if (!is_there(folder / name)) continue;
      if (auto found = open(folder / name, reasons)) return *std::move(found);
    }
  }
  std::string looked_in;
  for (const fs::path& folder : searched) {
    if (is_there(folder)) looked_in.append(" ").append(folder.string());
  }
  reasons += looked_in.empty() ? "\n  no folder of a CUDA toolkit or of pip's packages was found"
                               : "\n  nothing usable in" + looked_in;
  give_up(reasons);
}

std::string describe_cublas() {
  struct Answer {
    std::string file;  // HINDSEARCH_CUBLAS
    std::string description;
  };
  static std::mutex mutex;
  // Never destroyed: the engine's thread may ask while the process ends.
  static Answer& answer = *new Answer;
  const std::lock_guard lock(mutex);
  std::string file = variable(kFile);
  if (answer.description.empty() || answer.file != file) {
    const CublasLibrary found = open_cublas();
    found.api.destroy(found.handle);
    answer = {std::move(file), "cuBLAS " + found.version + " (" + found.path + ")"};
  }
  return answer.description;
}

}  // namespace hindsearch::cuda
