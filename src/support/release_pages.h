#pragma once

#include <cstddef>
#include <span>

namespace weft {

/// Says that these bytes, of a mapped file or not, will hardly be read again: their pages leave the
/// process's memory where the system can bring them back. What they hold stays. A hint: a system
/// that does not know it does nothing.
void release_pages(std::span<const std::byte> bytes);

}  // namespace weft
