#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/result.h"

namespace weft {

/// A file inside a zip archive, as the archive's directory describes it.
struct ZipMember {
  std::string name;
  uint64_t bytes = 0;         ///< of the content
  uint64_t stored_bytes = 0;  ///< in the archive, perhaps compressed
  uint64_t record = 0;        ///< offset of the directory's entry
};

/// The members of an archive in memory, in the directory's order. kInvalidInput, with a reason, for
/// anything that is no archive, is damaged or encrypted, or uses another method than stored and
/// deflated; and for members that claim more content than deflate could have packed into the
/// archive.
Result<std::vector<ZipMember>> read_zip_directory(std::span<const std::byte> archive);

/// A member's content; kInvalidInput when it is not what the directory says.
Result<std::vector<std::byte>> extract(std::span<const std::byte> archive, const ZipMember& member);

/// Parts that follow each other.
struct ZipSource {
  std::string name;
  std::vector<std::span<const std::byte>> parts;
};

/// Writes an archive of uncompressed members under `path`, which appears complete or not at all.
/// The same members give the same bytes: every time of modification is the start of 1980.
Status write_zip(const std::string& path, std::span<const ZipSource> members);

}  // namespace weft
