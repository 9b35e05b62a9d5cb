#include "assemble/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

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

TEST(Arena, SharesMemoryOfBlocksOfOneSize) {
  const std::vector<ArenaBlock> blocks = {{100, 0, 1}, {300, 1, 2}, {100, 2, 3}, {300, 2, 4}};
  const ArenaLayout layout = place_arena_by_size(blocks);
  EXPECT_EQ(layout.offsets[0], layout.offsets[2]);
  EXPECT_GE(layout.offsets[1], layout.offsets[0] + 100);
  EXPECT_GE(std::abs(layout.offsets[3] - layout.offsets[1]), 300);  // alive together
  EXPECT_EQ(layout.bytes, 128 + 2 * 320);
}

/// The lowest free offset for each, the biggest first, by looking at all that have a place.
std::vector<int64_t> lowest_offsets(const std::vector<ArenaBlock>& blocks) {
  std::vector<int64_t> offsets(blocks.size(), -1);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t b) { return std::pair(-blocks[b].bytes, b); });
  for (const size_t i : order) {
    const auto is_free = [&](int64_t at) {
      for (size_t p = 0; p < blocks.size(); ++p) {
        if (offsets[p] < 0 || blocks[p].last < blocks[i].first || blocks[p].first > blocks[i].last)
          continue;
        if (offsets[p] < at + blocks[i].bytes && at < offsets[p] + blocks[p].bytes) return false;
      }
      return true;
    };
    int64_t at = 0;
    while (!is_free(at)) at += 64;
    offsets[i] = at;
  }
  return offsets;
}

TEST(Arena, EachLiesAsLowAsItCan) {
  std::mt19937 random(5);
  for (const uint32_t steps : {1, 7, 40, 64}) {
    std::vector<ArenaBlock> blocks;
    for (int n = 0; n < 120; ++n) {
      const auto first = static_cast<int32_t>(random() % steps);
      const auto last = std::min<int32_t>(first + static_cast<int32_t>(random() % 9),
                                          static_cast<int32_t>(steps) - 1);
      blocks.push_back({64 * static_cast<int64_t>(1 + random() % 5), first, last});
    }
    EXPECT_EQ(place_arena(blocks).offsets, lowest_offsets(blocks)) << steps << " steps";
  }
}

}  // namespace
}  // namespace weft
