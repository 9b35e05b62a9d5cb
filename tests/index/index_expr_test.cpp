#include "index/index_expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/check.h"
#include "tests/index/random_index.h"

namespace weft {
namespace {

const IndexExpr a = IndexExpr::var(0), b = IndexExpr::var(1), c = IndexExpr::var(2);

std::string name_of(int id) { return std::string(1, static_cast<char>('a' + id)); }
std::string text(const IndexExpr& e) { return print(e, name_of); }

RangeOf ranges(std::vector<Interval> intervals) {
  return [r = std::move(intervals)](int id) {
    return static_cast<size_t>(id) < r.size() ? r[static_cast<size_t>(id)] : kUnbounded;
  };
}
std::string simplified(const IndexExpr& e, std::vector<Interval> r) {
  return text(simplify(e, ranges(std::move(r))));
}

TEST(IndexExpr, SumsAreCanonical) {
  EXPECT_EQ(text(IndexExpr(1) + b + a * 4), "a * 4 + b + 1");
  EXPECT_EQ(text(a + b - a), "b");
  EXPECT_EQ(text((a + b) * 3 - b), "a * 3 + b * 2");
  EXPECT_EQ(text(a * b + b * a), "a * b * 2");
  EXPECT_EQ(text((a + 1) * (b + 2)), "a * 2 + b + a * b + 2");
  EXPECT_EQ(a + b * 2 + 1, IndexExpr(1) + b + a + b);
  EXPECT_EQ((a + b * 2 + 1).hash(), (IndexExpr(1) + b + a + b).hash());
}

TEST(IndexExpr, DivisionTakesMultiplesOut) {
  EXPECT_EQ(text(floor_div(a * 8 + b + 9, 4)), "a * 2 + (b + 1) floordiv 4 + 2");
  EXPECT_EQ(text(mod(a * 8 + b + 9, 4)), "(b + 1) mod 4");
  EXPECT_EQ(text(floor_div(floor_div(a, 3), 4)), "a floordiv 12");
  EXPECT_EQ(text(floor_div(a * 6 + 3, 9)), "(a * 2 + 1) floordiv 3");
  EXPECT_EQ(text(mod(a * 6 + 4, 9)), "(a * 2 + 1) mod 3 * 3 + 1");
  EXPECT_EQ(text(floor_div(mod(a, 12), 4)), "a floordiv 4 mod 3");
}

TEST(IndexExpr, SimplifyUsesRanges) {
  const std::vector<Interval> r = {{0, 9}, {0, 3}, {0, 11}};
  EXPECT_EQ(simplified(floor_div(a * 4 + b, 4), r), "a");
  EXPECT_EQ(simplified(mod(a * 4 + b, 4), r), "b");
  EXPECT_EQ(simplified(floor_div(a * 12 + b * 3 + 2, 36) * 36 + mod(a * 12 + b * 3 + 2, 36), r),
            "a * 12 + b * 3 + 2");
  EXPECT_EQ(simplified(mod(c, 4) + mod(floor_div(c, 4), 3) * 4, r), "c");
  EXPECT_EQ(simplified(floor_div(c, 12), r), "0");
  EXPECT_EQ(simplified(mod(c, 12), r), "c");
  EXPECT_EQ(simplified(mod(b - 4, 4), r), "b");
  EXPECT_EQ(simplified(min(a, b + 9), r), "a");
  EXPECT_EQ(simplified(max(a, IndexExpr(9)), r), "9");
  EXPECT_EQ(simplified(floor_div(a * 6 + b, 4), {{0, 5}, {0, 1}}), "a * 3 floordiv 2");
  EXPECT_EQ(simplified(a * 5 + b, {{2, 2}, {0, 3}}), "b + 10");
}

TEST(IndexExpr, SplitsOfMergedAxesDisappear) {
  // [4,6,10] merged and taken apart again at other places.
  const IndexExpr linear = a * 60 + b * 10 + c;
  const std::vector<Interval> r = {{0, 3}, {0, 5}, {0, 9}};
  EXPECT_EQ(simplified(mod(floor_div(linear, 10), 6), r), "b");
  EXPECT_EQ(simplified(floor_div(linear, 30), r), "a * 2 + b floordiv 3");
  EXPECT_EQ(simplified(mod(floor_div(linear, 5), 2), r), "c floordiv 5");
  EXPECT_EQ(simplified(mod(floor_div(linear, 5), 6), r), "c floordiv 5 + b mod 3 * 2");
}

TEST(IndexExpr, OverflowIsAnInternalError) {
  const IndexExpr huge(int64_t{1} << 62);
  EXPECT_THROW(huge + huge, InternalError);
  EXPECT_THROW(a * huge * 4, InternalError);
}

TEST(IndexExpr, UnknownRangesDoNotOverflow) {
  const IndexExpr far = a * (int64_t{1} << 40) * b;
  const Interval r = range_of(far + c, ranges({}));
  EXPECT_LT(r.lo, -(int64_t{1} << 61));
  EXPECT_GT(r.hi, int64_t{1} << 61);
  EXPECT_EQ(simplified(floor_div(far, int64_t{1} << 50), {}),
            text(floor_div(far, int64_t{1} << 50)));
}

TEST(IndexExpr, AffineForm) {
  AffineForm form;
  ASSERT_TRUE(as_affine(c * 3 + a - 2, &form));
  EXPECT_THAT(form.terms, testing::ElementsAre(testing::Pair(0, 1), testing::Pair(2, 3)));
  EXPECT_EQ(form.constant, -2);
  EXPECT_EQ(form.coefficient(1), 0);
  EXPECT_FALSE(as_affine(floor_div(a, 2) + b, &form));
  EXPECT_FALSE(as_affine(a * b, &form));
  ASSERT_TRUE(as_affine(IndexExpr(5), &form));
  EXPECT_TRUE(form.terms.empty());
}

TEST(IndexExpr, Variables) {
  const IndexExpr e = floor_div(c, 2) + a * 3;
  EXPECT_THAT(variables(e), testing::ElementsAre(0, 2));
  EXPECT_TRUE(uses_var(e, 2));
  EXPECT_FALSE(uses_var(e, 1));
}

/// A law of every random expression: simplify keeps the value at each point, is idempotent, and
/// range_of holds.
TEST(IndexExprLaws, SimplifyKeepsValues) {
  RandomIndex random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::vector<Interval> box = random.box(3, 4);
    const IndexExpr e = random.expr(3, static_cast<int>(random.pick(1, 4)));
    const RangeOf range = ranges(box);
    const IndexExpr s = simplify(e, range);
    const Interval bound = range_of(e, range);
    EXPECT_EQ(text(simplify(s, range)), text(s)) << text(e);
    for_each_point(box, [&](const std::vector<int64_t>& point) {
      const int64_t value = evaluate_at(e, point);
      ASSERT_EQ(evaluate_at(s, point), value) << text(e) << " became " << text(s);
      ASSERT_TRUE(bound.contains(value)) << text(e);
    });
  }
}

TEST(IndexExprLaws, AffineRangesAreTight) {
  RandomIndex random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<Interval> box = random.box(3);
    const IndexExpr e = a * random.pick(-5, 5) + b * random.pick(-5, 5) + c * random.pick(-5, 5) +
                        random.pick(-9, 9);
    Interval seen{INT64_MAX, INT64_MIN};
    for_each_point(box, [&](const std::vector<int64_t>& point) {
      seen.lo = std::min(seen.lo, evaluate_at(e, point));
      seen.hi = std::max(seen.hi, evaluate_at(e, point));
    });
    EXPECT_EQ(range_of(e, ranges(box)), seen) << text(e);
  }
}

TEST(IndexExprLaws, SubstituteThenEvaluate) {
  RandomIndex random(3);
  for (int trial = 0; trial < 1000; ++trial) {
    const IndexExpr e = random.expr(2, 3);
    const IndexExpr parts[] = {random.expr(3, 2), random.expr(3, 2)};
    const IndexExpr s = substitute(e, [&](int id) { return parts[id]; });
    for_each_point({{-2, 2}, {0, 3}, {-1, 1}}, [&](const std::vector<int64_t>& point) {
      ASSERT_EQ(evaluate_at(s, point),
                evaluate(e, [&](int id) { return evaluate_at(parts[id], point); }))
          << text(e);
    });
  }
}

TEST(IndexExprLaws, CompareOrders) {
  RandomIndex random(4);
  for (int trial = 0; trial < 1000; ++trial) {
    const IndexExpr x = random.expr(2, 2), y = random.expr(2, 2);
    EXPECT_EQ(compare(x, y), -compare(y, x));
    EXPECT_EQ(compare(x, y) == 0, x == y);
  }
}

}  // namespace
}  // namespace weft
