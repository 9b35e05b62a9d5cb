#include "runtime/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

Error cannot_read(const std::string& path, const char* reason) {
  return invalid_input("cannot read '" + path + "': " + reason);
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // Opening a pipe must not wait for a writer: only regular files are accepted, which fstat
  // decides.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return cannot_read(path, std::strerror(errno));
  struct stat status{};
  if (fstat(file.fd, &status) != 0) return cannot_read(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return cannot_read(path, "it is not a regular file");
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  if (status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return cannot_read(path, std::strerror(errno));
    mapped->data_ = static_cast<const std::byte*>(data);
    mapped->size_ = size;
  }
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace weft
