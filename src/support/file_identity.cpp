#include "support/file_identity.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "support/mapped_file.h"

namespace weft {
namespace {

constexpr size_t kWholeBytes = 1 << 20;
constexpr size_t kPieces = 64;
constexpr size_t kPieceBytes = 4096;

void add_time(Hasher& hasher, const timespec& time) {
  hasher.add_value(static_cast<uint64_t>(time.tv_sec));
  hasher.add_value(static_cast<uint64_t>(time.tv_nsec));
}

}  // namespace

Result<Hash128> identify_file(const std::string& path, bool whole) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0)
    return invalid_input("cannot read '" + path + "': " + std::strerror(errno));
  WEFT_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  const size_t size = file.bytes.size();
  Hasher hasher;
  hasher.add_value(size);
  if (whole || size <= kWholeBytes) {
    hasher.add_bytes(file.bytes);
    return hasher.digest128();
  }
  add_time(hasher, info.st_mtim);
  add_time(hasher, info.st_ctim);
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t at = (size - kPieceBytes) / (kPieces - 1) * i;
    hasher.add_bytes(file.bytes.subspan(at, kPieceBytes));
  }
  hasher.add_bytes(file.bytes.last(kPieceBytes));
  return hasher.digest128();
}

}  // namespace weft
