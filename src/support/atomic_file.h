#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "support/result.h"

namespace weft {

/// A file that appears under its name complete or not at all: written without a name where the file
/// system can, else under a temporary one beside it, and moved into place by commit(). A process
/// that is killed before leaves the old file as it was.
class AtomicFile {
 public:
  /// kInvalidInput when the folder is missing or closed to writing, or when `path` is something
  /// else than a regular file. A symbolic link is followed.
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  /// Makes it visible; with `durable` it is on the disk before that, so that it survives a power
  /// cut.
  Status commit(bool durable = true);

 private:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}
  Error failure(int error) const;
  Status open_in(const std::string& folder);
  Status give_name();

  std::string path_;
  std::string temporary_;  ///< name of the unfinished file, if it has one
  int fd_ = -1;
};

}  // namespace weft
