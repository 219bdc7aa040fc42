// What a machine without a usable GPU says, and what one with it. On the model of the device.
#include "native/backend/cuda/runtime/devices.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "native/backend/cuda/runtime/context.h"
#include "native/backend/cuda/runtime/cublas.h"
#include "native/backend/cuda/runtime/memory.h"
#include "native/test/backends.h"

namespace hindsearch::testing {
namespace {

// Another machine while this lives.
class OnMachine {
 public:
  explicit OnMachine(const host_model::Machine& machine) { host_model::set_machine(machine); }
  ~OnMachine() { host_model::set_machine({}); }
};

// An environment variable while this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, before_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string before_;
};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The reason that both doors give, make_backend as an Error and device_info as an answer.
std::string reason() {
  const std::string thrown = CHECK_ERROR(code::kDeviceUnavailable, make_backend(ComputeType::f32));
  const DeviceInfo info = device_info();
  CHECK_EQ(info.unavailable, thrown);
  return thrown;
}

TEST(a_machine_where_all_is_well) {
  const cuda::Device device = cuda::usable_device();
  CHECK_EQ(device.description, std::string("cuda sm_80, host model"));
  CHECK(device.multiprocessors > 0);
  CHECK(device.free_bytes > 0 && device.free_bytes <= device.total_bytes);
  const DeviceInfo info = device_info();
  CHECK_EQ(info.unavailable, std::string());
  CHECK(contains(info.description, "cuda sm_80, host model, cuBLAS 13.0.0"));
  CHECK(info.total_bytes == device.total_bytes && info.free_bytes > 0);
  CHECK(make_backend(ComputeType::bf16)->compute() == ComputeType::bf16);
}

TEST(no_driver) {
  const OnMachine machine({.driver = 0, .devices = 0});
  const std::string message = reason();
  CHECK(contains(message, "no NVIDIA driver"));
  CHECK(contains(message, "driver 580 or later"));
}

TEST(a_driver_too_old) {
  const OnMachine machine({.driver = 12040});
  const std::string message = reason();
  CHECK(contains(message, "too old"));
  CHECK(contains(message, "CUDA 12.4"));
  CHECK(contains(message, "driver 580 or later"));
}

TEST(no_gpu) {
  const OnMachine machine({.devices = 0});
  CHECK(contains(reason(), "nvidia-smi"));
  const Variable hidden("CUDA_VISIBLE_DEVICES", "7");
  CHECK(contains(reason(), "CUDA_VISIBLE_DEVICES is \"7\""));
}

TEST(a_gpu_too_old) {
  const OnMachine machine({.major = 7, .minor = 5});
  const std::string message = reason();
  CHECK(contains(message, "host model has compute capability 7.5"));
  CHECK(contains(message, "8.0"));
  const OnMachine newer({.major = 12, .minor = 0});
  CHECK_EQ(cuda::usable_device().description, std::string("cuda sm_120, host model"));
}

TEST(a_gpu_without_memory_in_stream_order) {
  const OnMachine machine({.pools = false});
  const std::string message = reason();
  CHECK(contains(message, "host model"));
  CHECK(contains(message, "cudaMallocAsync"));
}

TEST(no_cublas) {
  {
    const Variable file("HINDSEARCH_CUBLAS", "/nowhere/libcublas.so.13");
    const std::string message = reason();
    CHECK(contains(message, "/nowhere/libcublas.so.13: cannot open"));
    CHECK(contains(message, "HINDSEARCH_CUBLAS"));
    CHECK(contains(message, "nvidia-cublas"));
    // The GPU itself is there.
    CHECK(contains(device_info().description, "host model"));
  }
  CHECK_EQ(device_info().unavailable, std::string());
}

// A file that is no cuBLAS, and one that is a library of something else.
TEST(a_library_that_is_not_cublas) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hindsearch-cublas-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string text = (folder / "libcublas.so.13").string();
  std::ofstream(text) << "text";
  {
    const Variable file("HINDSEARCH_CUBLAS", text);
    CHECK(contains(reason(), text.c_str()));
  }
  {
    const Variable file("HINDSEARCH_CUBLAS", "libc.so.6");
    const std::string message = reason();
    CHECK(contains(message, "libc.so.6: it lacks cublasCreate_v2, "));
    CHECK(contains(message, "cublasGemmEx"));
  }
  std::filesystem::remove_all(folder);
}

// Not the first time, because it may be installed meanwhile, and then once for all.
TEST(cublas_is_asked_until_it_answers) {
  const std::filesystem::path copy = std::filesystem::temp_directory_path() /
                                     ("hindsearch-libcublas-" + std::to_string(getpid()) + ".so");
  const std::string stand_in = std::getenv("HINDSEARCH_CUBLAS");
  const Variable file("HINDSEARCH_CUBLAS", copy.string());
  for (int i = 0; i < 2; ++i) CHECK(contains(device_info().unavailable, "cannot open"));
  std::filesystem::copy_file(stand_in, copy);
  std::array<DeviceInfo, 4> answers;
  std::vector<std::thread> threads;
  for (DeviceInfo& answer : answers) threads.emplace_back([&] { answer = device_info(); });
  for (std::thread& thread : threads) thread.join();
  for (const DeviceInfo& answer : answers) {
    CHECK_EQ(answer.unavailable, std::string());
    CHECK(contains(answer.description, copy.c_str()));
  }
  void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD);
  std::filesystem::remove(copy);
  const auto handles_given = reinterpret_cast<int (*)()>(dlsym(library, "hindsearchHandlesGiven"));
  CHECK_EQ(handles_given(), 1);
}

// Without a word from the user: in the folders where pip and the toolkit put it.
TEST(cublas_is_found_where_pip_and_the_toolkit_put_it) {
  const std::string stand_in = std::getenv("HINDSEARCH_CUBLAS");
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("hindsearch-places-" + std::to_string(getpid()));
  const Variable file("HINDSEARCH_CUBLAS", "");
  const auto found_in = [&](const char* variable, const char* folder, const char* name) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root / folder);
    std::filesystem::copy_file(stand_in, root / folder / name);
    const Variable place(variable, root.string());
    const auto stream = cuda::Stream::shared();
    const std::string description = cuda::Cublas(stream->get()).description();
    CHECK_EQ(description, (root / folder / name).string() + ", 13.0.0");
  };
  found_in("CUDA_HOME", "lib64", "libcublas.so.13");
  found_in("CUDA_PATH", "targets/x86_64-linux/lib", "libcublas.so.12");
  found_in("VIRTUAL_ENV", "lib/python3.11/site-packages/nvidia/cublas/lib", "libcublas.so.12");
  found_in("VIRTUAL_ENV", "lib/python3.12/site-packages/nvidia/cu13/lib", "libcublas.so.13");
  found_in("CONDA_PREFIX", "lib", "libcublas.so");
  found_in("HOME", ".local/lib/python3.10/site-packages/nvidia/cublas/lib", "libcublas.so.12");
  std::filesystem::remove_all(root);
}

// What lacks is memory and not the library; in LeakSanitizer's hands, no handle is left open.
TEST(too_little_memory_for_cublas) {
  const auto stream = cuda::Stream::shared();
  const OnMachine machine({.memory = host_model::memory_used() + (std::size_t{16} << 20)});
  CHECK_ERROR(code::kOutOfMemory, cuda::Cublas(stream->get()));
}

TEST(what_the_pool_keeps_is_given_back_when_other_memory_needs_it) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto stream = cuda::Stream::shared();
  const OnMachine machine({.memory = host_model::memory_used() + 100 * kMiB});
  {
    const cuda::TemporaryBytes first(stream->get(), 60 * kMiB);
    CHECK_ERROR(code::kOutOfMemory, cuda::DeviceBytes(80 * kMiB));
  }
  CHECK_EQ(cuda::device_memory_use().kept, 60 * kMiB);
  const cuda::DeviceBytes second(80 * kMiB);
  CHECK_EQ(cuda::device_memory_use().kept, std::size_t{0});
  CHECK_ERROR(code::kOutOfMemory, cuda::TemporaryBytes(stream->get(), 60 * kMiB));
}

}  // namespace
}  // namespace hindsearch::testing
