#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "support/result.h"

namespace weft {

/// Whether the bytes begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

/// What a gzip file of one or more members holds. kInvalidInput when it is damaged or holds more
/// than `max_bytes`.
Result<std::string> unpack_gzip(std::span<const std::byte> bytes, size_t max_bytes);

}  // namespace weft
