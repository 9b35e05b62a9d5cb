#include "support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft {
namespace {

constexpr mode_t kMode = 0666;  // the process's umask takes away
constexpr int kMostNames = 1000;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& path, int attempt) {
  return path + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(attempt);
}

}  // namespace

Error AtomicFile::failure(int error) const {
  return invalid_input("cannot write '" + path_ + "': " + std::strerror(error));
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  AtomicFile file(path);
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      return invalid_input("cannot write '" + path + "': it exists and is not a regular file");
    }
    if (access(path.c_str(), W_OK) != 0) return file.failure(errno);
    char real[PATH_MAX];
    if (realpath(path.c_str(), real) != nullptr) file.path_ = real;
  }
  WEFT_RETURN_IF_ERROR(file.open_in(folder_of(file.path_)));
  return file;
}

Status AtomicFile::open_in(const std::string& folder) {
#if defined(O_TMPFILE)
  fd_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (fd_ >= 0) return {};
#endif
  for (int attempt = 0; attempt < kMostNames; ++attempt) {
    temporary_ = temporary_name(path_, attempt);
    fd_ = open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode);
    if (fd_ >= 0) return {};
    if (errno != EEXIST) break;
  }
  temporary_.clear();
  return failure(errno);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failure(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status AtomicFile::give_name() {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_);
  for (int attempt = 0; attempt < kMostNames; ++attempt) {
    std::string name = temporary_name(path_, attempt);
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = std::move(name);
      return {};
    }
    if (errno != EEXIST) break;
  }
  return failure(errno);
}

Status AtomicFile::commit(bool durable) {
  if (durable && fsync(fd_) != 0) return failure(errno);
  if (temporary_.empty()) WEFT_RETURN_IF_ERROR(give_name());
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return failure(errno);
  temporary_.clear();
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0 && errno != EINTR) return failure(errno);
  if (!durable) return {};
  // So that the name, too, survives a power cut; a file system that cannot do it has done its best.
  const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return {};
}

}  // namespace weft
