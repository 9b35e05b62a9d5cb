#include "io/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft {
namespace {

Status write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return invalid_input(std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return {};
}

/// A new file beside `path`, whose name goes to `name`; -1 on failure.
int open_beside(const std::string& path, std::string& name) {
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    name = path + ".tmp" + std::to_string(getpid()) + "-" + std::to_string(i);
    const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

Status replace_file(const std::string& path, const std::vector<std::span<const std::byte>>& parts) {
  const auto failed = [&](const std::string& reason) {
    return invalid_input("cannot write '" + path + "': " + reason);
  };
  std::string temporary;
  const int fd = open_beside(path, temporary);
  if (fd < 0) return failed(std::strerror(errno));
  Status status;
  for (std::span<const std::byte> part : parts) {
    if (status.ok()) status = write_all(fd, part);
  }
  if (close(fd) != 0 && status.ok()) status = invalid_input(std::strerror(errno));
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = invalid_input(std::strerror(errno));
  }
  if (status.ok()) return status;
  unlink(temporary.c_str());
  return failed(status.error().message);
}

}  // namespace weft
