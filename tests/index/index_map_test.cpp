#include "index/index_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/index/random_index.h"

namespace weft {
namespace {

IndexMap parsed(const std::string& text) {
  Result<IndexMap> map = parse_index_map(text);
  EXPECT_TRUE(map.ok()) << map.error().message;
  return map.ok() ? *map : IndexMap{};
}

int64_t row_major(const std::vector<int64_t>& shape, const std::vector<int64_t>& point) {
  int64_t linear = 0;
  for (size_t i = 0; i < shape.size(); ++i) linear = linear * shape[i] + point[i];
  return linear;
}

TEST(IndexMap, PrintsAndParses) {
  for (const char* text : {
           "() -> ()",
           "(d0, d1)[s0] -> (d0, s0, d1 floordiv 2), d0 in [0, 3], d1 in [0, 7], s0 in [0, 1]",
           "(d0) -> (d0 * 4 - 1, -d0 + 3), d0 in [0, 3], d0 * 2 + 1 in [2, 5]",
           "(d0, d1) -> (min(d0, d1), max(d0 - 1, d1 mod 3 * 2)), d0 in [-1, 3], d1 in [0, 7]",
           "(d0, d1) -> (d0 * d1, (d0 + d1) floordiv 4 mod 3), d0 in [0, 3], d1 in [0, 7]",
           "(d0) -> (d0), d0 in [0, 9], d0 in [2, 5]",
       }) {
    EXPECT_EQ(print(parsed(text)), text);
  }
}

TEST(IndexMap, ParseErrorsSayWhere) {
  const auto message = [](std::string_view text) { return parse_index_map(text).error().message; };
  EXPECT_EQ(message("(d0) -> (d1), d0 in [0, 3]"),
            "character 10: `d1` is no dimension or symbol of this map");
  EXPECT_EQ(message("(d0) -> (d0 mod 0), d0 in [0, 3]"),
            "character 18: floordiv and mod take a positive constant");
  EXPECT_EQ(message("(d0) -> (d0)"), "character 13: a dimension or symbol has no range");
  EXPECT_EQ(message("(d0) -> (d0 * 9000000000000000000 * 9), d0 in [0, 3]"),
            "character 34: the numbers grow too large");
  EXPECT_EQ(message("(d0 -> (d0)"), "character 5: `)` is missing");
  EXPECT_EQ(message("() -> (" + std::string(100000, '(')),
            "character 209: the index is nested too deeply");
}

TEST(IndexMap, ReshapesStayAffineWhereAxesSplitOrMerge) {
  EXPECT_EQ(print(reshape_map({2, 12, 5}, {2, 3, 4, 5})),
            "(d0, d1, d2, d3) -> (d0, d1 * 4 + d2, d3), d0 in [0, 1], d1 in [0, 2], d2 in [0, 3], "
            "d3 in [0, 4]");
  EXPECT_EQ(print(reshape_map({2, 1, 3}, {6, 1})),
            "(d0, d1) -> (d0 floordiv 3, 0, d0 mod 3), d0 in [0, 5], d1 in [0, 0]");
  EXPECT_EQ(print(reshape_map({}, {1, 1})), "(d0, d1) -> (), d0 in [0, 0], d1 in [0, 0]");
  EXPECT_EQ(print(reshape_map({1, 1}, {})), "() -> (0, 0)");
  EXPECT_EQ(print(reshape_map({4, 6}, {3, 8})),
            "(d0, d1) -> ((d0 * 8 + d1) floordiv 6, (d0 * 8 + d1) mod 6), d0 in [0, 2], "
            "d1 in [0, 7]");
}

TEST(IndexMap, HeadsOfAttentionComposeToAffineReads) {
  // [B*S, H*D] -> [B, S, H, D] -> transpose [B, H, S, D]: q[b, h, s, d] reads row b*S+s, column
  // h*D+d.
  const IndexMap transpose = parsed(
      "(d0, d1, d2, d3) -> (d0, d2, d1, d3), d0 in [0, 1], d1 in [0, 11], d2 in [0, 127], d3 in "
      "[0, 63]");
  const IndexMap split = reshape_map({256, 768}, {2, 128, 12, 64});
  EXPECT_EQ(print(compose(transpose, split)),
            "(d0, d1, d2, d3) -> (d0 * 128 + d2, d1 * 64 + d3), d0 in [0, 1], d1 in [0, 11], d2 in "
            "[0, 127], d3 in [0, 63]");
  const IndexMap batch = reshape_map({2, 12, 128, 64}, {24, 128, 64});
  EXPECT_EQ(print(compose(compose(batch, transpose), split)),
            "(d0, d1, d2) -> (d1 + d0 floordiv 12 * 128, d2 + d0 mod 12 * 64), d0 in [0, 23], d1 "
            "in [0, 127], d2 in [0, 63]");
  EXPECT_EQ(print(compose(reshape_map({24, 128, 64}, {2, 12, 128, 64}),
                          compose(compose(batch, transpose), split))),
            "(d0, d1, d2, d3) -> (d0 * 128 + d2, d1 * 64 + d3), d0 in [0, 1], d1 in [0, 11], d2 in "
            "[0, 127], d3 in [0, 63]");
}

TEST(IndexMap, ComposeKeepsSymbolsAndAddsConstraints) {
  const IndexMap first = parsed("(d0)[s0] -> (d0 + s0 - 1), d0 in [0, 7], s0 in [0, 2]");
  const IndexMap second = parsed("(d0)[s0] -> (d0 * 2 + s0), d0 in [0, 7], s0 in [0, 1]");
  EXPECT_EQ(print(compose(first, second)),
            "(d0)[s0, s1] -> (d0 * 2 + s0 * 2 + s1 - 2), d0 in [0, 7], s0 in [0, 2], s1 in [0, 1], "
            "d0 + s0 - 1 in [0, 7]");
}

TEST(IndexMap, Inverse) {
  EXPECT_EQ(
      print(*inverse(parsed(
          "(d0, d1, d2) -> (d1 * 4 + d2, 5 - d0), d0 in [0, 3], d1 in [0, 2], d2 in [0, 3]"))),
      "(d0, d1) -> (-d1 + 5, d0 floordiv 4, d0 mod 4), d0 in [0, 11], d1 in [2, 5]");
  EXPECT_EQ(print(*inverse(reshape_map({4, 6}, {3, 8}))), print(reshape_map({3, 8}, {4, 6})));
  EXPECT_FALSE(inverse(parsed("(d0) -> (d0 * 2), d0 in [0, 3]")).ok());
  EXPECT_FALSE(inverse(parsed("(d0, d1) -> (d0), d0 in [0, 3], d1 in [0, 1]")).ok());
  EXPECT_FALSE(inverse(parsed("(d0) -> (d0, d0), d0 in [0, 3]")).ok());
  EXPECT_FALSE(inverse(parsed("(d0) -> (d0 mod 2), d0 in [0, 3]")).ok());
}

TEST(IndexMap, Injectivity) {
  EXPECT_TRUE(is_injective(parsed("(d0, d1) -> (d0 * 9 + d1 * 2), d0 in [0, 3], d1 in [0, 4]")));
  EXPECT_FALSE(is_injective(parsed("(d0, d1) -> (d0 * 7 + d1 * 2), d0 in [0, 3], d1 in [0, 4]")));
  EXPECT_TRUE(is_injective(parsed("(d0) -> (d0, d0), d0 in [0, 3]")));
  EXPECT_FALSE(is_injective(parsed("(d0) -> (d0 floordiv 2), d0 in [0, 3]")));
  EXPECT_TRUE(is_injective(parsed("(d0, d1) -> (d0), d0 in [0, 3], d1 in [2, 2]")));
}

/// Reshape: the linear positions agree.
TEST(IndexMapLaws, ReshapeKeepsOrder) {
  RandomIndex random(5);
  for (const int64_t elements : {1, 6, 12, 24, 30, 36, 60}) {
    for (int trial = 0; trial < 30; ++trial) {
      const std::vector<int64_t> from = random.shape(elements), to = random.shape(elements);
      const IndexMap map = reshape_map(from, to);
      for_each_point(map.domain, [&](const std::vector<int64_t>& point) {
        const std::vector<int64_t> source = apply_map(map, point);
        for (size_t i = 0; i < from.size(); ++i) ASSERT_TRUE(source[i] >= 0 && source[i] < from[i]);
        ASSERT_EQ(row_major(from, source), row_major(to, point)) << print(map);
      });
    }
  }
}

/// A random bijection: reshapes, permutations and flips in a row, as models make them.
IndexMap random_bijection(RandomIndex& random, int64_t elements, int steps) {
  std::vector<int64_t> shape = random.shape(elements);
  IndexMap map = identity_map(shape);
  for (int s = 0; s < steps; ++s) {
    // map goes from `shape` to the first shape; put another view in front of it.
    if (random.pick(0, 1) == 0) {
      const std::vector<int64_t> to = random.shape(elements);
      map = compose(reshape_map(shape, to), map);
      shape = to;
      continue;
    }
    std::vector<size_t> order(shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random.engine());
    IndexMap step;
    std::vector<int64_t> to(shape.size());
    step.results.resize(shape.size());
    for (size_t i = 0; i < order.size(); ++i) {
      to[i] = shape[order[i]];
      const IndexExpr d = IndexExpr::var(static_cast<int>(i));
      step.results[order[i]] = random.pick(0, 3) == 0 ? IndexExpr(to[i] - 1) - d : d;
    }
    step.domain = identity_map(to).domain;
    map = compose(step, map);
    shape = to;
  }
  return map;
}

TEST(IndexMapLaws, InverseUndoesTheMap) {
  RandomIndex random(6);
  int found = 0, tried = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const IndexMap map =
        random_bijection(random, random.pick(1, 2) * 24, static_cast<int>(random.pick(0, 3)));
    ++tried;
    EXPECT_TRUE(map.constraints.empty()) << print(map);
    const Result<IndexMap> back = inverse(map);
    if (!back.ok()) continue;
    ++found;
    EXPECT_EQ(back->domain, image(map));
    for_each_point(map.domain, [&](const std::vector<int64_t>& point) {
      ASSERT_EQ(apply_map(*back, apply_map(map, point)), point) << print(map) << "\n"
                                                                << print(*back);
    });
    for_each_point(back->domain, [&](const std::vector<int64_t>& point) {
      ASSERT_EQ(apply_map(map, apply_map(*back, point)), point) << print(map) << "\n"
                                                                << print(*back);
    });
  }
  // Most of what reshapes and permutations make is found; the rest says so.
  EXPECT_GT(found * 10, tried * 7) << found << " of " << tried;
}

TEST(IndexMapLaws, InverseOfRandomMapsIsRightWhenGiven) {
  RandomIndex random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    IndexMap map;
    map.domain = random.box(2, 6);
    for (int i = 0; i < 2; ++i)
      map.results.push_back(random.expr(2, static_cast<int>(random.pick(0, 2))));
    const Result<IndexMap> back = inverse(map);
    const bool injective = is_injective(map);
    std::set<std::vector<int64_t>> seen;
    size_t points = 0;
    for_each_point(map.domain, [&](const std::vector<int64_t>& point) {
      ++points;
      seen.insert(apply_map(map, point));
      if (back.ok()) ASSERT_EQ(apply_map(*back, apply_map(map, point)), point) << print(map);
    });
    if (injective) EXPECT_EQ(seen.size(), points) << print(map);
    if (back.ok()) {
      size_t box = 0;
      for_each_point(back->domain, [&](const std::vector<int64_t>&) { ++box; });
      EXPECT_EQ(box, points) << print(map);
    }
  }
}

TEST(IndexMapLaws, ComposeAppliesBoth) {
  RandomIndex random(8);
  for (int trial = 0; trial < 500; ++trial) {
    IndexMap first, second;
    first.domain = random.box(2);
    first.symbol_ranges = random.box(1);
    second.domain = random.box(2);
    second.symbol_ranges = random.box(1);
    for (int i = 0; i < 2; ++i) {
      first.results.push_back(random.expr(3, 2));
      second.results.push_back(random.expr(3, 2));
    }
    second.constraints.push_back({random.expr(3, 1), {-3, 4}});
    const IndexMap both = compose(first, second);
    const IndexMap shorter = simplify(both);
    std::vector<Interval> box = first.domain;
    box.push_back(first.symbol_ranges[0]);
    box.push_back(second.symbol_ranges[0]);
    for_each_point(box, [&](const std::vector<int64_t>& p) {
      std::vector<int64_t> middle = apply_map(first, {p[0], p[1], p[2]});
      middle.push_back(p[3]);
      const bool defined = defined_at(second, middle);
      ASSERT_EQ(defined_at(both, p), defined) << print(both);
      ASSERT_EQ(defined_at(shorter, p), defined) << print(shorter);
      if (!defined) return;
      ASSERT_EQ(apply_map(both, p), apply_map(second, middle)) << print(both);
      ASSERT_EQ(apply_map(shorter, p), apply_map(second, middle));
    });
  }
}

TEST(IndexMapLaws, ImageCovers) {
  RandomIndex random(9);
  for (int trial = 0; trial < 500; ++trial) {
    IndexMap map;
    map.domain = random.box(3, 4);
    map.results = {random.expr(3, 3), random.expr(3, 2)};
    const std::vector<Interval> box = image(map);
    for_each_point(map.domain, [&](const std::vector<int64_t>& point) {
      const std::vector<int64_t> at = apply_map(map, point);
      ASSERT_TRUE(box[0].contains(at[0]) && box[1].contains(at[1])) << print(map);
    });
  }
}

TEST(IndexMapLaws, TextRoundTrip) {
  RandomIndex random(10);
  for (int trial = 0; trial < 1000; ++trial) {
    IndexMap map;
    map.domain = random.box(2);
    map.symbol_ranges = random.box(1);
    map.results = {random.expr(3, 3), random.expr(3, 2)};
    if (random.pick(0, 1) == 1) map.constraints.push_back({random.expr(3, 2), {-2, 5}});
    const Result<IndexMap> back = parse_index_map(print(map));
    ASSERT_TRUE(back.ok()) << print(map) << back.error().message;
    EXPECT_EQ(*back, map) << print(map);
  }
}

}  // namespace
}  // namespace weft
