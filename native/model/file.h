// A file descriptor with an owner, whose failures are Error(IO) naming path and reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hindsearch {

class File {
 public:
  // Error(INVALID_CHECKPOINT) for anything but a regular file.
  static File open(const std::string& path);
  static File create(const std::string& path);  // or empties an existing one
  File(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  bool is_regular() const;
  std::uint64_t size() const;
  void read(std::uint64_t offset, std::byte* to, std::size_t bytes) const;
  void write(const void* from, std::size_t bytes);
  void sync_and_close();  // the data are on the disk when this returns

 private:
  File(std::string path, int descriptor);
  [[noreturn]] void fail(const char* action) const;

  std::string path_;
  int descriptor_;
};

}  // namespace hindsearch
