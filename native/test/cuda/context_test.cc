// Working memory, memory from the pool, and numbers on their way up and down.
#include <limits>

#include "native/backend/cuda/runtime/staging.h"
#include "native/test/cuda/device_case.h"

namespace hindsearch::testing {
namespace {

using cuda::Slot;

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

// Without what the pool keeps, which an allocation that fails gives back.
std::size_t lasting() {
  const MemoryUse use = cuda::device_memory_use();
  return use.bytes - use.kept;
}

TEST(working_memory_stays_where_it_is_until_it_grows) {
  const DeviceCase device(ComputeType::f32);
  cuda::Workspace& workspace = device.context().workspace;
  const std::uint64_t before = workspace.generation();
  void* const left = workspace.bytes(Slot::left, 100 * kKiB);
  const std::uint64_t grown = workspace.generation();
  CHECK(grown > before);
  // Less, as much, and what rounding up left room for: none of them moves it.
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 100 * kKiB, 128 * kKiB}) {
    CHECK(workspace.bytes(Slot::left, bytes) == left);
  }
  CHECK_EQ(workspace.generation(), grown);
  CHECK(workspace.bytes(Slot::right, 10) != left);
  const std::uint64_t other = workspace.generation();
  CHECK(other > grown);
  workspace.bytes(Slot::left, 3 * kMiB);
  CHECK(workspace.generation() > other);
}

TEST(a_token_more_does_not_always_move_working_memory) {
  const DeviceCase device(ComputeType::f32);
  cuda::Workspace& workspace = device.context().workspace;
  workspace.bytes(Slot::partials, 4);
  const std::uint64_t before = workspace.generation();
  for (std::size_t bytes = 4; bytes <= 512 * kKiB; bytes += 256) {
    workspace.bytes(Slot::partials, bytes);
  }
  CHECK_EQ(workspace.generation(), before + 3);  // 64, 128, 256, 512 KiB
}

TEST(working_memory_does_not_grow_inside_a_recording) {
  const DeviceCase device(ComputeType::f32);
  cuda::Workspace& workspace = device.context().workspace;
  const cudaStream_t stream = device.context().stream;
  void* const small = workspace.bytes(Slot::left, 10);
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording");
  CHECK(workspace.bytes(Slot::left, 10) == small);
  CHECK_ERROR(code::kInternal, workspace.bytes(Slot::left, kMiB));
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamEndCapture(stream, &graph), "ending the recording");
  cuda::check(cudaGraphDestroy(graph), "the graph");
  CHECK(workspace.bytes(Slot::left, 10) == small);
}

// Uploads of all sizes, several times what the staging ring holds, from one host buffer that
// changes as soon as each call is over, while the device has done nothing yet.
TEST(the_host_may_change_its_numbers_at_once) {
  const DeviceCase device(ComputeType::f32);
  const std::size_t ring = cuda::Staging::kParts * cuda::Staging::kPartBytes / sizeof(Token);
  std::vector<std::size_t> sizes;
  for (std::size_t total = 0, i = 0; total < 3 * ring; ++i) {
    sizes.push_back(i % 7 == 6 ? ring / 2 + i : 1 + 4096 * (i % 5) + i);
    total += sizes.back();
  }
  std::vector<DeviceArray<Token>> arrays;
  for (const std::size_t size : sizes) arrays.push_back(device.array<Token>(size));
  std::vector<Token> host;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    host.assign(sizes[i], static_cast<Token>(i));
    host.back() = -static_cast<Token>(i);
    arrays[i].upload(host);
    host.assign(sizes[i], -7);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<Token> expected(sizes[i], static_cast<Token>(i));
    expected.back() = -static_cast<Token>(i);
    CHECK(arrays[i].download() == expected);
  }
}

TEST(nothing_goes_up_and_down) {
  const DeviceCase device(ComputeType::f32);
  cuda::upload_bytes(device.context(), nullptr, nullptr, 0);
  cuda::download_bytes(device.context(), nullptr, nullptr, 0);
  const cuda::Temporary<float> none(device.context(), 0);
  CHECK(none.data() == nullptr);
}

TEST(lasting_buffers_are_zero_and_outlive_their_backend) {
  std::unique_ptr<Buffer> buffer;
  {
    const DeviceCase device(ComputeType::f32);
    // Memory that somebody used before.
    const Floats used = normal(1000, 1);
    { const auto before = device.upload(used); }
    buffer = cuda::lasting_buffer(cuda::Stream::shared(), 1000);
  }
  CHECK_EQ(buffer->size(), std::int64_t{1000});
  const DeviceCase device(ComputeType::f32);
  Floats values(1000, 1.0f);
  cuda::download_bytes(device.context(), buffer->data(), values.data(), 4000);
  CHECK(same_bits(values, Floats(1000, 0.0f)));
  CHECK(cuda::lasting_buffer(cuda::Stream::shared(), 0)->size() == 0);
}

TEST(memory_is_counted) {
  const MemoryUse before = cuda::device_memory_use();
  {
    const cuda::DeviceBytes first(3 * kMiB);
    CHECK_EQ(cuda::device_memory_use().bytes, before.bytes + 3 * kMiB);
    cuda::DeviceBytes second(kMiB);
    cuda::DeviceBytes moved = std::move(second);
    CHECK_EQ(cuda::device_memory_use().bytes, before.bytes + 4 * kMiB);
    moved = cuda::DeviceBytes(2 * kMiB);
  }
  CHECK_EQ(cuda::device_memory_use().bytes, before.bytes);
  CHECK(cuda::device_memory_use().peak >= before.bytes + 5 * kMiB);
}

TEST(the_pool_keeps_what_is_freed) {
  const DeviceCase device(ComputeType::f32);
  { const cuda::Temporary<float> warm(device.context(), 16 * kMiB); }
  device.wait();
  const MemoryUse before = cuda::device_memory_use();
  CHECK(before.kept >= 64 * kMiB);
  {
    const cuda::Temporary<float> again(device.context(), 16 * kMiB);
    CHECK_EQ(cuda::device_memory_use().bytes, before.bytes);
    CHECK_EQ(cuda::device_memory_use().kept, before.kept - 64 * kMiB);
  }
  device.wait();
  CHECK_EQ(cuda::device_memory_use().kept, before.kept);
}

TEST(too_much_memory_is_an_error_that_leaves_all_as_it_was) {
  const DeviceCase device(ComputeType::f32);
  const std::size_t before = lasting();
  constexpr std::size_t kTooMuch = std::size_t{1} << 50;
  const std::string message = CHECK_ERROR(code::kOutOfMemory, cuda::DeviceBytes(kTooMuch));
  CHECK(message.find(std::to_string(kTooMuch) + " bytes") != std::string::npos);
  CHECK(message.find("smaller") != std::string::npos);
  CHECK_ERROR(code::kOutOfMemory, cuda::Temporary<float>(device.context(), std::int64_t{1} << 48));
  CHECK_ERROR(code::kOutOfMemory, cuda::lasting_buffer(cuda::Stream::shared(), -1));
  CHECK_ERROR(code::kOutOfMemory, cuda::scratch_buffer(cuda::Stream::shared(),
                                                       std::numeric_limits<std::int64_t>::max()));
  CHECK_ERROR(code::kOutOfMemory, device.context().workspace.bytes(Slot::left, kTooMuch));
  // The error is over: the next calls find none of it.
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  const Floats x = normal(100, 2);
  CHECK(same_bits(device.upload(x).download(), x));
  CHECK_EQ(lasting(), before);
}

TEST(errors_of_the_runtime_have_codes) {
  cuda::check(cudaSuccess, "nothing");
  const std::string memory =
      CHECK_ERROR(code::kOutOfMemory, cuda::check(cudaErrorMemoryAllocation, "a thing"));
  CHECK(memory.find("a thing") != std::string::npos);
  const std::string failed =
      CHECK_ERROR(code::kDeviceFailed, cuda::check(cudaErrorIllegalAddress, "a kernel"));
  CHECK(failed.find("a kernel failed") != std::string::npos);
  CHECK(failed.find("cudaErrorIllegalAddress") != std::string::npos);
}

}  // namespace
}  // namespace hindsearch::testing
