#include "assemble/arena.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Arena, NeverOverlapsBlocksAliveTogether) {
  const std::vector<ArenaBlock> blocks = {
      {100, 0, 2}, {300, 1, 3}, {64, 2, 2}, {100, 3, 5}, {300, 4, 5}};
  const ArenaLayout layout = place_arena(blocks);
  for (size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_EQ(layout.offsets[a] % 64, 0);
    for (size_t b = a + 1; b < blocks.size(); ++b) {
      if (blocks[a].last < blocks[b].first || blocks[b].last < blocks[a].first) continue;
      EXPECT_TRUE(layout.offsets[a] + blocks[a].bytes <= layout.offsets[b] ||
                  layout.offsets[b] + blocks[b].bytes <= layout.offsets[a]);
    }
  }
  EXPECT_LE(layout.bytes, 512);
}

}  // namespace
}  // namespace weft
