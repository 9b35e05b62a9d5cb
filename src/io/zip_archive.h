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
  std::span<const std::byte> stored;  ///< in the archive, perhaps compressed
  uint64_t bytes = 0;                 ///< of the content
  uint32_t checksum = 0;              ///< CRC-32 of the content
  bool deflated = false;
};

/// The members of an archive in memory, in the directory's order. kInvalidInput, with a reason, for
/// anything that is no archive, is damaged, encrypted or split, or uses another method than stored
/// and deflated. Members overlap neither each other nor the directory, so contents are bounded by
/// the archive's size and deflate's best ratio.
Result<std::vector<ZipMember>> read_zip_directory(std::span<const std::byte> archive);

/// A member's content; kInvalidInput when it is not what the directory says.
Result<std::vector<std::byte>> extract(const ZipMember& member);

/// Parts that follow each other.
struct ZipSource {
  std::string name;
  std::vector<std::span<const std::byte>> parts;
};

/// Writes an archive of uncompressed members under `path`, which appears complete or not at all.
/// The same members give the same bytes: every time of modification is the start of 1980.
Status write_zip(const std::string& path, std::span<const ZipSource> members);

}  // namespace weft
