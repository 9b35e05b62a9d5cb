#include "codegen/cpu/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'w', 'e', 'f', 't', 'k', 'r', 'n', '1'};
constexpr const char* kExtension = ".kernel";
constexpr const char* kUnfinished = ".unfinished";
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr size_t kMaxPhases = 1 << 16;

/// What stands at the start of a file; the image's entries and bytes follow.
struct FileHeader {
  char magic[8];
  uint64_t checksum;  ///< of all that follows this field
  Hash128 key;
  uint64_t image_hash;
  uint64_t entries;
  uint64_t bytes;
};
constexpr size_t kCheckedFrom = offsetof(FileHeader, key);

uint64_t checksum_of(std::span<const std::byte> file) { return hash64(file.subspan(kCheckedFrom)); }

std::vector<std::byte> encode(const Hash128& key, const KernelImage& image) {
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key = key;
  header.image_hash = image.hash;
  header.entries = image.phase_entries.size();
  header.bytes = image.bytes.size();
  const size_t entry_bytes = image.phase_entries.size() * sizeof(uint64_t);
  std::vector<std::byte> file(sizeof header + entry_bytes + image.bytes.size());
  std::memcpy(file.data(), &header, sizeof header);
  if (entry_bytes != 0) {
    std::memcpy(file.data() + sizeof header, image.phase_entries.data(), entry_bytes);
  }
  if (!image.bytes.empty()) {
    std::memcpy(file.data() + sizeof header + entry_bytes, image.bytes.data(), image.bytes.size());
  }
  header.checksum = checksum_of(file);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

std::optional<KernelImage> decode(const Hash128& key, std::span<const std::byte> file) {
  FileHeader header;
  if (file.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key != key ||
      header.checksum != checksum_of(file) || header.entries > kMaxPhases) {
    return std::nullopt;
  }
  const size_t entry_bytes = header.entries * sizeof(uint64_t);
  const auto rest = file.subspan(sizeof header);
  if (rest.size() < entry_bytes || rest.size() - entry_bytes != header.bytes) return std::nullopt;
  KernelImage image;
  image.phase_entries.resize(header.entries);
  if (entry_bytes != 0) std::memcpy(image.phase_entries.data(), rest.data(), entry_bytes);
  const auto code = rest.subspan(entry_bytes);
  image.bytes.assign(code.begin(), code.end());
  image.hash = header.image_hash;
  if (!verify_kernel_image(image).ok()) return std::nullopt;
  return image;
}

/// The file's bytes; nullopt when it is not there or cannot be read whole.
std::optional<std::vector<std::byte>> read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat info{};
  std::optional<std::vector<std::byte>> bytes;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= kMaxFileBytes) {
    bytes.emplace(static_cast<size_t>(info.st_size));
    size_t done = 0;
    while (done < bytes->size()) {
      const ssize_t n = read(fd, bytes->data() + done, bytes->size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    if (done < bytes->size()) bytes.reset();
    // The time of the last use, for trim(). Where it cannot be set, age decides.
    if (bytes) futimens(fd, nullptr);
  }
  close(fd);
  return bytes;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

/// Written under a name of its own, then renamed. Not forced to the disk: a file that a crash of
/// the system left short has the wrong checksum.
int write_file(const std::string& path, std::span<const std::byte> bytes) {
  const auto thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  const std::string temporary =
      path + "." + std::to_string(getpid()) + "." + std::to_string(thread) + kUnfinished;
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  errno = 0;
  const bool written = write_all(fd, bytes);
  int error = written ? 0 : (errno != 0 ? errno : EIO);
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

struct CachedFile {
  fs::file_time_type used;
  std::string path;
  int64_t bytes = 0;
};

}  // namespace

KernelCache::KernelCache(Options options) : options_(std::move(options)) {
  std::error_code error;
  fs::create_directories(options_.directory, error);
  if (error || !fs::is_directory(options_.directory, error)) {
    usable_ = false;
    warn_once("cannot make it: " + error.message());
  }
}

void KernelCache::warn_once(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (warned_) return;
  warned_ = true;
  if (options_.warn) options_.warn("cache folder " + options_.directory + ": " + message);
}

std::string KernelCache::path_of(const Hash128& key) const {
  return options_.directory + "/" + to_hex(key) + kExtension;
}

std::optional<KernelImage> KernelCache::find(const Hash128& key) const {
  if (!usable_) return std::nullopt;
  const auto file = read_file(path_of(key));
  if (!file) return std::nullopt;
  return decode(key, *file);
}

void KernelCache::insert(const Hash128& key, const KernelImage& image) {
  if (!usable_) return;
  const int error = write_file(path_of(key), encode(key, image));
  if (error != 0) warn_once(std::string("cannot write to it: ") + std::strerror(error));
}

int64_t KernelCache::trim() {
  if (!usable_) return 0;
  std::vector<CachedFile> files;
  int64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(options_.directory, error), last; !error && it != last;
       it.increment(error)) {
    std::error_code gone;  // another process may delete it meanwhile
    const std::string extension = it->path().extension().string();
    const auto used = it->last_write_time(gone);
    if (gone) continue;
    if (extension == kUnfinished && now - used > std::chrono::hours(1)) {
      fs::remove(it->path(), gone);
    }
    if (extension != kExtension) continue;
    const auto bytes = static_cast<int64_t>(it->file_size(gone));
    if (gone) continue;
    files.push_back({used, it->path().string(), bytes});
    total += bytes;
  }
  if (total <= options_.max_bytes) return total;
  std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) {
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  // Some way below the bound, so that not every compilation has to delete.
  const int64_t goal = options_.max_bytes - options_.max_bytes / 10;
  for (const CachedFile& file : files) {
    if (total <= goal) break;
    std::error_code gone;
    fs::remove(file.path, gone);
    total -= file.bytes;
  }
  return total;
}

}  // namespace weft
