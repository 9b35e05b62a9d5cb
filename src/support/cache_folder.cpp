#include "support/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'w', 'e', 'f', 't', 'c', 'c', 'h', '2'};
constexpr const char* kUnfinished = ".unfinished";
/// Entries up to this size are checked each time.
constexpr uint64_t kSmallBytes = 1 << 20;

/// What stands at the start of a file; the entry's bytes follow, aligned as the header is long.
struct FileHeader {
  char magic[8];
  uint64_t bytes;
  Hash128 key;
  uint64_t kind;      ///< hash of its name
  uint64_t written;   ///< nanoseconds since 1970: the time of modification of a file left alone
  uint64_t checksum;  ///< of the bytes
  uint64_t own;       ///< hash of all before it
};
static_assert(sizeof(FileHeader) == 64);

uint64_t header_hash(const FileHeader& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(FileHeader, own)));
}

uint64_t checksum_of(std::span<const std::span<const std::byte>> parts) {
  Hasher hasher;
  for (const auto part : parts) hasher.add_bytes(part);
  return hasher.digest64();
}

uint64_t nanoseconds(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

timespec time_of(uint64_t nanoseconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(nanoseconds / 1000000000);
  time.tv_nsec = static_cast<long>(nanoseconds % 1000000000);
  return time;
}

constexpr timespec kNow{0, UTIME_NOW}, kUnchanged{0, UTIME_OMIT};

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
/// the system left short has the wrong size.
int write_file(int folder, const std::string& name, const FileHeader& header,
               std::span<const std::span<const std::byte>> parts) {
  const auto thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  const std::string temporary =
      name + "." + std::to_string(getpid()) + "." + std::to_string(thread) + kUnfinished;
  const int fd = openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  errno = 0;
  bool written = write_all(fd, std::as_bytes(std::span(&header, 1)));
  for (const auto part : parts) written = written && write_all(fd, part);
  int error = written ? 0 : (errno != 0 ? errno : EIO);
  // Where the time cannot be set, the entry is checked each time.
  const timespec times[2] = {kNow, time_of(header.written)};
  futimens(fd, times);
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) error = errno;
  if (error != 0) unlinkat(folder, temporary.c_str(), 0);
  return error;
}

/// The folder for its owner alone, its parents as the process makes folders.
std::error_code make_folder(fs::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    error.assign(errno, std::generic_category());
  }
  return error;
}

/// Who else than this user and root could have written it, as a clause; "" where nobody could.
std::string other_writers(const struct stat& info) {
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return "user " + std::to_string(info.st_uid) + " owns it";
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "others may write to it (chmod go-w makes it this user's)";
  }
  return {};
}

Result<FileDescriptor> open_folder(const std::string& directory) {
  const std::error_code error = make_folder(directory);
  if (error) return invalid_input("cannot make it: " + error.message());
  FileDescriptor folder(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info{};
  if (!folder.is_open() || fstat(folder.get(), &info) != 0) {
    return invalid_input(std::string("cannot open it: ") + std::strerror(errno));
  }
  const std::string others = other_writers(info);
  if (!others.empty()) return invalid_input("not used, as it holds machine code and " + others);
  return folder;
}

std::string name_of(const Hash128& key, std::string_view kind) {
  return to_hex(key) + "." + std::string(kind);
}

struct CachedFile {
  uint64_t used;
  std::string name;
  int64_t bytes = 0;
};

/// KEY.KIND, the key being 32 hexadecimal digits.
bool is_entry(const std::string& name) {
  return name.size() > 33 && name[32] == '.' && name.find_first_not_of("0123456789abcdef") == 32 &&
         !name.ends_with(kUnfinished);
}

}  // namespace

CacheFolder::CacheFolder(Options options) : options_(std::move(options)) {
  Result<FileDescriptor> folder = open_folder(options_.directory);
  if (folder.ok()) {
    folder_ = std::move(*folder);
  } else {
    warn_once(folder.error().message);
  }
}

void CacheFolder::warn_once(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (warned_) return;
  warned_ = true;
  if (options_.warn) options_.warn("cache folder " + options_.directory + ": " + message);
}

std::optional<MappedFile> CacheFolder::find(const Hash128& key, std::string_view kind) const {
  if (!folder_.is_open()) return std::nullopt;
  const std::string name = name_of(key, kind);
  const FileDescriptor entry(
      openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!entry.is_open() || fstat(entry.get(), &info) != 0) return std::nullopt;
  if (!other_writers(info).empty()) return std::nullopt;
  Result<MappedFile> file = map_file(entry, name);
  FileHeader header;
  if (!file.ok() || file->bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file->bytes.data(), sizeof header);
  const auto bytes = file->bytes.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.own != header_hash(header) ||
      header.key != key || header.kind != hash64(kind) || header.bytes != bytes.size()) {
    return std::nullopt;
  }
  const bool left_alone = nanoseconds(info.st_mtim) == header.written;
  if (options_.verify || !left_alone || bytes.size() <= kSmallBytes) {
    if (checksum_of({&bytes, 1}) != header.checksum) return std::nullopt;
  }
  // The time of access is that of the last use, for trim(). Where it cannot be set, age decides.
  const timespec times[2] = {kNow, left_alone ? kUnchanged : time_of(header.written)};
  futimens(entry.get(), times);
  return MappedFile{std::move(file->owner), bytes};
}

bool CacheFolder::insert(const Hash128& key, std::string_view kind,
                         std::span<const std::span<const std::byte>> parts) {
  if (!folder_.is_open()) return false;
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key = key;
  header.kind = hash64(kind);
  for (const auto part : parts) header.bytes += part.size();
  header.checksum = checksum_of(parts);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  header.written = nanoseconds(now);
  header.own = header_hash(header);
  const int error = write_file(folder_.get(), name_of(key, kind), header, parts);
  if (error != 0) warn_once(std::string("cannot write to it: ") + std::strerror(error));
  return error == 0;
}

std::optional<MappedFile> CacheFolder::share(const Hash128& key, std::string_view kind,
                                             const MappedFile& made) {
  if (!insert(key, kind, {&made.bytes, 1})) return std::nullopt;
  std::optional<MappedFile> found = find(key, kind);
  if (found && found->bytes.size() != made.bytes.size()) return std::nullopt;
  return found;
}

int64_t CacheFolder::trim() {
  if (!folder_.is_open()) return 0;
  std::vector<CachedFile> files;
  int64_t total = 0;
  std::error_code error;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  constexpr uint64_t kHour = uint64_t{3600} * 1000000000;
  for (fs::directory_iterator it(options_.directory, error), last; !error && it != last;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    struct stat info{};  // another process may delete it meanwhile
    if (fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    if (name.ends_with(kUnfinished) && nanoseconds(now) > nanoseconds(info.st_mtim) + kHour) {
      unlinkat(folder_.get(), name.c_str(), 0);
    }
    if (!is_entry(name)) continue;
    files.push_back({nanoseconds(info.st_atim), name, info.st_size});
    total += info.st_size;
  }
  if (total <= options_.max_bytes) return total;
  std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) {
    return a.used != b.used ? a.used < b.used : a.name < b.name;
  });
  // Some way below the bound, so that not every compilation has to delete.
  const int64_t goal = options_.max_bytes - options_.max_bytes / 10;
  for (const CachedFile& file : files) {
    if (total <= goal) break;
    unlinkat(folder_.get(), file.name.c_str(), 0);
    total -= file.bytes;
  }
  return total;
}

}  // namespace weft
