// MCFuser's space of tiles: expressions, their pruning, what is estimated, the search.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tiling/tile_candidates.h"

namespace weft {
namespace {

using testing::ElementsAre;

/// M = N = 1024, K = H = 512: the example of the paper.
ContractionChain example() { return {{1024, 512, 1024, 512}, 1, 2}; }

std::vector<std::string> texts(const std::vector<TilingExpression>& expressions) {
  std::vector<std::string> out;
  for (const TilingExpression& e : expressions) out.push_back(print(e));
  return out;
}

TilingExpression named(const std::string& text) {
  for (const TilingExpression& e : tiling_expressions(example(), false)) {
    if (print(e) == text) return e;
  }
  ADD_FAILURE() << "no expression " << text;
  return {};
}

TEST(Tiling, ListsDeepAndFlatExpressions) {
  const std::vector<TilingExpression> all = tiling_expressions(example(), false);
  EXPECT_EQ(all.size(), 26U);
  EXPECT_EQ(tiling_expressions(example(), true).size(), 24U);
  EXPECT_EQ(print(all.front()), "mknh");
  EXPECT_THAT(texts({all[24], all[25]}), ElementsAre("mn(k,h)", "nm(k,h)"));
  // Three contractions: m, n and h belong to several of them.
  const ContractionChain longer{{64, 64, 64, 64, 64}, 1, 4};
  EXPECT_EQ(tiling_expressions(longer, true).size(), 120U);
  EXPECT_EQ(tiling_expressions(longer, false).size(), 126U);
  EXPECT_EQ(tiling_expressions({{64, 64, 64, 64, 64, 64}, 1, 4}, true).size(), 720U);
}

TEST(Tiling, PutsContractionsIntoTheirRightmostLoops) {
  const auto around = [](const char* text) { return block_loops(named(text), example()); };
  // m and h over blocks: the first inside n and k, the second inside n, where k is over.
  EXPECT_EQ(around("mhnk").bound, (std::vector<int>{0, 3}));
  EXPECT_EQ(around("mhnk").around, (std::vector<std::vector<int>>{{2, 1}, {2}}));
  EXPECT_EQ(around("mhnk"), around("hmnk"));
  EXPECT_EQ(around("mn(k,h)").around, (std::vector<std::vector<int>>{{2, 1}, {2, 3}}));
  EXPECT_EQ(around("mn(k,h)"), around("nm(k,h)"));
}

TEST(Tiling, PrunesExpressions) {
  PruningRules rules{false, false, false, false};
  EXPECT_EQ(pruned_expressions(example(), false, rules).size(), 26U);
  rules.equal_blocks = true;
  EXPECT_EQ(pruned_expressions(example(), false, rules).size(), 5U);
  rules.partial_tiles = true;
  EXPECT_EQ(pruned_expressions(example(), false, rules).size(), 3U);
}

TEST(Tiling, CountsAndPrunesTiles) {
  const TileLimits limits{.block_bytes = 163 * 1024};
  const PruningRules none{false, false, false, false};
  EXPECT_EQ(count_candidates(example(), limits, none), 109051904);
  PruningRules padded = none;
  padded.padding = true;
  EXPECT_EQ(loop_tiles(example(), 0, limits, padded),
            (std::vector<int64_t>{16, 32, 64, 128, 256, 512, 1024}));
  EXPECT_LT(count_candidates(example(), limits, padded),
            count_candidates(example(), limits, none) / 100);
  EXPECT_EQ(count_candidates(example(), limits, {}), 3 * 7 * 7 * 6 * 6);
  // 200 is no power of two: less than a twentieth may be padding.
  EXPECT_EQ(loop_tiles({{200, 16, 16, 16}, 1, 2}, 0, limits, padded),
            (std::vector<int64_t>{16, 208}));
  EXPECT_EQ(loop_tiles({{200, 16, 16, 16}, 1, 2}, 0, {.whole = {0}}, padded),
            (std::vector<int64_t>{200}));
}

TEST(Tiling, EstimatesMemoryAndTime) {
  // Two bytes of A 32x64, B 64x16, C 32x16, D 16x48 and E 32x48.
  const std::vector<int64_t> tiles{32, 64, 16, 48};
  EXPECT_EQ(block_bytes(example(), tiles), 2 * (32 * 64 + 64 * 16 + 32 * 16 + 16 * 48 + 32 * 48));
  EXPECT_TRUE(fits_block(example(), tiles, {.block_bytes = 10240}, {}));
  EXPECT_FALSE(fits_block(example(), tiles, {.block_bytes = 9000}, {}));
  EXPECT_TRUE(fits_block(example(), tiles, {.block_bytes = 9000}, {.memory = false}));

  // One block of a chain without any loop: each tensor moves once, half of the device is idle.
  const ContractionChain small{{16, 16, 16, 16}, 1, 4};
  const TileCandidate one{named("mhnk"), {16, 16, 16, 16}};
  const TileLimits limits{.gigabytes = 1, .gigaflops = 1, .processors = 1};
  const double memory = 4.0 * 4 * 256 / 1000, computing = 2.0 * 2 * 4096 / 1000;
  EXPECT_DOUBLE_EQ(estimated_us(small, one, limits), (memory + computing) * 2);

  // Rows in four blocks: B and D move for each of them; k has one iteration, so that A moves once.
  const ContractionChain rows{{64, 16, 32, 16}, 1, 4};
  const TileCandidate four{named("mhnk"), {16, 16, 16, 16}};
  const double moved = 4.0 * (4 * (256 + 2 * 256 + 2 * 256 + 256)) / 1000;
  EXPECT_DOUBLE_EQ(estimated_us(rows, four, limits),
                   (moved + 4 * 2 * 2 * 2 * 4096.0 / 1000) * 5 / 4);
}

TEST(Tiling, FindsWhatIsNearlyTheBest) {
  const TileLimits limits{
      .block_bytes = 163 * 1024, .gigabytes = 1555, .gigaflops = 312000, .processors = 108};
  double best = 1e30;
  for (const TilingExpression& e : pruned_expressions(example(), false, {})) {
    const auto tiles = [&](int loop) { return loop_tiles(example(), loop, limits, {}); };
    for (const int64_t m : tiles(0)) {
      for (const int64_t k : tiles(1)) {
        for (const int64_t n : tiles(2)) {
          for (const int64_t h : tiles(3)) {
            const TileCandidate c{e, {m, k, n, h}};
            if (fits_block(example(), c.tiles, limits, {}))
              best = std::min(best, estimated_us(example(), c, limits));
          }
        }
      }
    }
  }
  const auto found = search_tiles(example(), limits, false, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(estimated_us(example(), *found, limits), 1.05 * best);
  const auto again = search_tiles(example(), limits, false, {});
  EXPECT_EQ(again->tiles, found->tiles);
  EXPECT_FALSE(search_tiles(example(), {.block_bytes = 100}, false, {}).has_value());
}

}  // namespace
}  // namespace weft
