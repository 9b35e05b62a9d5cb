#include "support/strong_components.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(StrongComponents, CyclesInAnOrderOfDependences) {
  // 0 -> 1 <-> 2 -> 3 -> 3, 4 -> 0
  const auto components = strong_components({{1}, {2}, {1, 3}, {3}, {0}});
  ASSERT_EQ(components.size(), 4U);
  EXPECT_THAT(components[0], ElementsAre(3));
  EXPECT_THAT(components[1], UnorderedElementsAre(1, 2));
  EXPECT_THAT(components[2], ElementsAre(0));
  EXPECT_THAT(components[3], ElementsAre(4));
  EXPECT_TRUE(strong_components({}).empty());
}

TEST(StrongComponents, LongChains) {
  std::vector<std::vector<size_t>> chain(1'000'000);
  for (size_t n = 0; n + 1 < chain.size(); ++n) chain[n].push_back(n + 1);
  EXPECT_EQ(strong_components(chain).size(), chain.size());
  chain.back().push_back(0);
  EXPECT_EQ(strong_components(chain).size(), 1U);
}

/// Two numbers are in one component where each is reached from the other.
TEST(StrongComponents, RandomGraphs) {
  std::mt19937 random(5);
  for (int turn = 0; turn < 200; ++turn) {
    const size_t count = 1 + random() % 9;
    std::vector<std::vector<size_t>> depends(count);
    std::vector<std::vector<bool>> reached(count, std::vector<bool>(count, false));
    for (size_t n = 0; n < count; ++n) {
      reached[n][n] = true;
      for (size_t d = random() % 3; d > 0; --d) {
        depends[n].push_back(random() % count);
        reached[n][depends[n].back()] = true;
      }
    }
    for (size_t via = 0; via < count; ++via) {
      for (size_t a = 0; a < count; ++a) {
        for (size_t b = 0; b < count; ++b)
          reached[a][b] = reached[a][b] || (reached[a][via] && reached[via][b]);
      }
    }
    const auto components = strong_components(depends);
    std::vector<size_t> of(count, count);
    for (size_t c = 0; c < components.size(); ++c) {
      for (const size_t n : components[c]) of[n] = c;
    }
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        EXPECT_EQ(of[a] == of[b], reached[a][b] && reached[b][a]);
        if (reached[a][b]) EXPECT_LE(of[b], of[a]);
      }
    }
  }
}

}  // namespace
}  // namespace weft
