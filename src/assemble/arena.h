#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// A block of memory needed from position `first` to `last` of a list of steps, both included.
struct ArenaBlock {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  ///< by block, multiples of 64
  int64_t bytes = 0;             ///< peak
};

/// Places blocks so that those alive together do not overlap: the biggest first, each at the lowest
/// offset that is free during its life.
ArenaLayout place_arena(const std::vector<ArenaBlock>& blocks);

/// The same, but only blocks of as many bytes share memory. Threads that share steps then write the
/// lines that they wrote before: in a block of another size each would write what lies in the cache
/// of another core, and wait for it.
ArenaLayout place_arena_by_size(const std::vector<ArenaBlock>& blocks);

}  // namespace weft
