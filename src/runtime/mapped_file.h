#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "support/result.h"

namespace weft {

/// The bytes of a regular file, mapped read-only; nothing is read before it is touched. Whoever
/// keeps the shared pointer keeps the mapping.
class MappedFile {
 public:
  /// kInvalidInput with the system's reason when the file cannot be read.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weft
