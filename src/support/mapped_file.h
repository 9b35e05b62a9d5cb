#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "support/file_descriptor.h"
#include "support/result.h"

namespace weft {

/// The bytes of a regular file, mapped read-only; small files are read instead, so that a later
/// change of the file cannot reach them. The bytes start at an address aligned to 64 and live as
/// long as any copy of `owner`.
struct MappedFile {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// kInvalidInput, with the path and the system's reason, when it cannot be read or is not a regular
/// file.
Result<MappedFile> map_file(const std::string& path);

/// The same of an open file, which may be closed afterwards; errors call it `path`.
Result<MappedFile> map_file(const FileDescriptor& file, const std::string& path);

}  // namespace weft
