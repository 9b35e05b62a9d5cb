#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace weft {
namespace {

constexpr size_t kReadBytes = 256 << 10;

Error file_error(const std::string& path, const char* reason) {
  return invalid_input("cannot read '" + path + "': " + reason);
}

/// The first `size` bytes, or as many as there are by now.
Result<MappedFile> read_small(int fd, size_t size, const std::string& path) {
  const size_t capacity = (size + 64) / 64 * 64;
  std::shared_ptr<std::byte> buffer(static_cast<std::byte*>(std::aligned_alloc(64, capacity)),
                                    std::free);
  if (buffer == nullptr) return file_error(path, "out of memory");
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(fd, buffer.get() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return MappedFile{buffer, std::span<const std::byte>(buffer.get(), done)};
}

}  // namespace

Result<MappedFile> map_file(const std::string& path) {
  // Non-blocking, so that a pipe without a writer is refused below instead of waited for.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return file_error(path, std::strerror(errno));
  return map_file(file, path);
}

Result<MappedFile> map_file(const FileDescriptor& file, const std::string& path) {
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return file_error(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return file_error(path, "it is a directory");
  if (!S_ISREG(info.st_mode)) return file_error(path, "it is not a regular file");
  const auto size = static_cast<size_t>(info.st_size);
  if (size <= kReadBytes) return read_small(file.get(), size, path);
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) return file_error(path, std::strerror(errno));
  std::shared_ptr<const void> owner(
      start, [size](const void* mapped) { munmap(const_cast<void*>(mapped), size); });
  return MappedFile{owner, {static_cast<const std::byte*>(start), size}};
}

}  // namespace weft
