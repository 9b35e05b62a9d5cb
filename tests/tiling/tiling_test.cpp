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
  const ContractionChain longest{{64, 64, 64, 64, 64, 64}, 1, 4};
  EXPECT_EQ(tiling_expressions(longest, true).size(), 720U);
  EXPECT_EQ(tiling_expressions(longest, false).size(), 744U);
  EXPECT_EQ(print(tiling_expressions(longest, false)[720]), "mnho(k,p)");
}

ContractionChain of_length(int contractions) {
  return {std::vector<int64_t>(static_cast<size_t>(contractions) + 2, 64), 1, 4};
}

TEST(Tiling, ParsesWhatItPrints) {
  for (int contractions = 1; contractions <= 4; ++contractions) {
    const ContractionChain chain = of_length(contractions);
    for (const TilingExpression& e : tiling_expressions(chain, false)) {
      const auto read = parse_tiling(print(e), chain);
      ASSERT_TRUE(read.ok()) << print(e) << ": " << read.error().message;
      EXPECT_EQ(*read, e) << print(e);
    }
  }
  for (const auto& [text, why] :
       {std::pair("mnk", "each of mknh once"), std::pair("mnkhh", "each of mknh once"),
        std::pair("mnkx", "each of mknh once"), std::pair("mn(k,h", "stand in ( )"),
        std::pair("mn(kh)", "apart by commas"), std::pair("", "each of mknh once"),
        std::pair("mnko", "each of mknh once")}) {
    const auto read = parse_tiling(text, example());
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.error().message, testing::HasSubstr(why));
  }
}

TEST(Tiling, PlacesContractionsOfLongerChains) {
  using Loops = std::vector<std::vector<int>>;
  const auto loops = [](const char* text, int contractions) {
    return block_loops(*parse_tiling(text, of_length(contractions)), of_length(contractions));
  };
  // Three: k and n are over before the third begins; o stands over blocks, outside of h.
  EXPECT_EQ(loops("mohnk", 3).bound, (std::vector<int>{0, 4}));
  EXPECT_EQ(loops("mohnk", 3).around, (Loops{{3, 2, 1}, {3, 2}, {3}}));
  EXPECT_EQ(loops("mnh(k,o)", 3).bound, (std::vector<int>{0}));
  EXPECT_EQ(loops("mnh(k,o)", 3).around, (Loops{{2, 1}, {2, 3}, {3, 4}}));
  // Four.
  EXPECT_EQ(loops("mpohnk", 4).bound, (std::vector<int>{0, 5}));
  EXPECT_EQ(loops("mpohnk", 4).around, (Loops{{4, 3, 2, 1}, {4, 3, 2}, {4, 3}, {4}}));
  EXPECT_EQ(loops("mnho(k,p)", 4).around, (Loops{{2, 1}, {2, 3}, {3, 4}, {4, 5}}));
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
  EXPECT_THAT(texts(pruned_expressions(example(), true, rules)),
              testing::Not(testing::Contains(testing::HasSubstr("("))));
  for (const auto& [contractions, distinct, whole] :
       {std::tuple(3, 18U, 4U), std::tuple(4, 84U, 5U)}) {
    rules.partial_tiles = false;
    EXPECT_EQ(pruned_expressions(of_length(contractions), false, rules).size(), distinct);
    rules.partial_tiles = true;
    EXPECT_EQ(pruned_expressions(of_length(contractions), false, rules).size(), whole);
  }
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
