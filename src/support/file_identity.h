#pragma once

#include <string>

#include "support/hash.h"
#include "support/result.h"

namespace weft {

/// What stands for a file's content in cache keys. Of a file of up to 1 MiB, and of every one when
/// `whole`: the hash of its bytes. Of a larger one: its size, the times of its last change, and 64
/// pieces of its content, so that it is not read. kInvalidInput when it cannot be read.
Result<Hash128> identify_file(const std::string& path, bool whole);

}  // namespace weft
