#include "native/model/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "native/core/error.h"

namespace hindsearch {
namespace {

[[noreturn]] void fail_io(const std::string& action, const std::string& path, int reason) {
  throw Error(code::kIo,
              action + " " + path + " failed: " + std::generic_category().message(reason));
}

// Linux moves at most 2 GiB with one call; smaller pieces also bound the time to a cancellation.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

}  // namespace

File::File(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::open(const std::string& path) {
  // Non-blocking, so that a named pipe in a checkpoint folder cannot hang the call.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_io("opening", path, errno);
  File file(path, descriptor);
  if (!file.is_regular()) {
    throw Error(code::kInvalidCheckpoint, path + " is not a regular file");
  }
  return file;
}

File File::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_io("creating", path, errno);
  return File(path, descriptor);
}

bool File::is_regular() const {
  struct stat status;
  return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
}

std::uint64_t File::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail("examining");
  return static_cast<std::uint64_t>(status.st_size);
}

void File::read(std::uint64_t offset, std::byte* to, std::size_t bytes) const {
  while (bytes > 0) {
    const ssize_t got =
        ::pread(descriptor_, to, std::min(bytes, kMaxTransfer), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("reading");
    if (got == 0) {
      throw Error(code::kIo, "reading " + path_ + " failed: the file ends at byte " +
                                 std::to_string(offset) + "; it was cut off while being read");
    }
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void File::write(const void* from, std::size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor_, next, std::min(bytes, kMaxTransfer));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("writing");
    next += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void File::sync_and_close() {
  if (::fsync(descriptor_) != 0) fail("syncing");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("closing");
}

void File::fail(const char* action) const { fail_io(action, path_, errno); }

}  // namespace hindsearch
