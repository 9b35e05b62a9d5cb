#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

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

/// Mappings that somebody reads, by what tells the content of files apart: compilations of one
/// model read it through one.
class Mappings {
 public:
  Result<MappedFile> find_or_map(int fd, const struct stat& info, const std::string& path) {
    const auto size = static_cast<size_t>(info.st_size);
    const Identity identity{info.st_dev,         info.st_ino,          info.st_size,
                            info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                            info.st_ctim.tv_nsec};
    const std::lock_guard lock(mutex_);
    std::erase_if(mapped_, [](const auto& entry) { return entry.second.expired(); });
    std::shared_ptr<const void> owner = mapped_[identity].lock();
    if (owner == nullptr) {
      void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (start == MAP_FAILED) return file_error(path, std::strerror(errno));
      owner.reset(start, [size](const void* mapped) { munmap(const_cast<void*>(mapped), size); });
      mapped_[identity] = owner;
    }
    return MappedFile{owner, {static_cast<const std::byte*>(owner.get()), size}};
  }

 private:
  using Identity = std::tuple<dev_t, ino_t, off_t, time_t, long, time_t, long>;
  std::mutex mutex_;
  std::map<Identity, std::weak_ptr<const void>> mapped_;
};

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
  static Mappings mappings;
  return mappings.find_or_map(file.get(), info, path);
}

}  // namespace weft
