#include "expr/scalar_expr.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

const IndexExpr d0 = IndexExpr::var(0);

ScalarRef f32(double v) { return scalar_constant(float_value(DType::kF32, v)); }
ScalarRef truth(bool v) { return scalar_constant(int_value(DType::kBool, v ? 1 : 0)); }
ScalarRef x(const IndexExpr& at) { return scalar_read(0, DType::kF32, {at}); }
ScalarRef add(const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(ScalarOp::kAdd, {a, b}, DType::kF32);
}
std::string text(const ScalarRef& s) {
  return print(s, {[](int id) { return "d" + std::to_string(id); },
                   [](int id) { return std::string(1, static_cast<char>('x' + id)); }});
}

TEST(ScalarExpr, BuildersFold) {
  EXPECT_EQ(text(add(f32(1.5), f32(2))), "3.5");
  EXPECT_EQ(text(scalar_apply(ScalarOp::kSelect, {truth(false), x(d0), x(d0 + 1)}, DType::kF32)),
            "x[d0 + 1]");
  const ScalarRef open = scalar_in_range(d0 - 1, 4, [](int) { return Interval{0, 9}; });
  EXPECT_EQ(text(open), "i64(d0 - 1) >= i64(0) && i64(d0 - 1) < i64(4)");
  EXPECT_EQ(scalar_apply(ScalarOp::kAnd, {truth(true), open}, DType::kBool), open);
  EXPECT_EQ(text(scalar_apply(ScalarOp::kOr, {open, truth(true)}, DType::kBool)), "true");
  EXPECT_EQ(text(scalar_in_range(d0, 10, [](int) { return Interval{0, 9}; })), "true");
  EXPECT_EQ(text(scalar_in_range(d0 + 10, 10, [](int) { return Interval{0, 9}; })), "false");
  EXPECT_EQ(text(scalar_convert(scalar_index(d0), DType::kF16)), "f16(d0)");
}

TEST(ScalarExpr, PrintsByPrecedence) {
  const ScalarRef a = x(d0), b = x(d0 * 2);
  const auto mul = [](const ScalarRef& p, const ScalarRef& q) {
    return scalar_apply(ScalarOp::kMul, {p, q}, DType::kF32);
  };
  const auto sub = [](const ScalarRef& p, const ScalarRef& q) {
    return scalar_apply(ScalarOp::kSub, {p, q}, DType::kF32);
  };
  EXPECT_EQ(text(mul(add(a, b), a)), "(x[d0] + x[d0 * 2]) * x[d0]");
  EXPECT_EQ(text(sub(a, sub(a, b))), "x[d0] - (x[d0] - x[d0 * 2])");
  EXPECT_EQ(text(sub(sub(a, b), a)), "x[d0] - x[d0 * 2] - x[d0]");
  EXPECT_EQ(text(scalar_apply(ScalarOp::kMax, {a, f32(-0.0)}, DType::kF32)), "max(x[d0], -0.0)");
  EXPECT_EQ(text(scalar_read(1, DType::kF32, {d0}, {}, f32(1e30))), "y[d0] fill 1e+30");
}

/// A chain where each node is used twice: a tree of 2^60 nodes.
ScalarRef doubled(int levels) {
  ScalarRef s = x(d0);
  for (int i = 0; i < levels; ++i) s = add(s, s);
  return s;
}

TEST(ScalarExpr, SharedNodesAreVisitedOnce) {
  const ScalarRef a = doubled(60), b = doubled(60);
  EXPECT_EQ(operation_count(a), 60);
  EXPECT_TRUE(equal(a, b));
  EXPECT_EQ(hash(a), hash(b));
  EXPECT_FALSE(equal(a, doubled(59)));
  const ScalarRef moved = rewrite(a, [](int id) { return IndexExpr::var(id) + 1; });
  EXPECT_EQ(operation_count(moved), 60);
  EXPECT_FALSE(equal(a, moved));
  EXPECT_EQ(rewrite(a, [](int id) { return IndexExpr::var(id); }), a);
}

TEST(ScalarExpr, RewriteReplacesReads) {
  const ScalarRef s = add(x(d0), scalar_read(1, DType::kF32, {d0}));
  const ScalarRef r = rewrite(
      s, [](int) { return IndexExpr(3); },
      [](const ScalarRef& read) { return read->symbol == 1 ? f32(2.5) : read; });
  EXPECT_EQ(text(r), "x[3] + 2.5");
}

TEST(ScalarExpr, ConstantsCompareByBits) {
  EXPECT_FALSE(equal(f32(0.0), f32(-0.0)));
  EXPECT_TRUE(equal(f32(NAN), f32(NAN)));
  EXPECT_FALSE(equal(f32(1), scalar_constant(float_value(DType::kF64, 1))));
}

}  // namespace
}  // namespace weft
