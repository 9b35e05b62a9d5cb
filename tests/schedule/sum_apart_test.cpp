#include "schedule/cpu/sum_apart.h"

#include <gtest/gtest.h>

#include "expr/tensor_program.h"

namespace weft {
namespace {

/// Variables 0 and 1 are the block and the column, 2 the place within the block.
ScalarRef read(const char* symbol, std::vector<int> along) {
  std::vector<IndexExpr> indices;
  for (const int v : along) indices.push_back(IndexExpr::var(v));
  return scalar_read(symbol[0], DType::kF32, std::move(indices));
}

ScalarRef apply(ScalarOp op, const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(op, {a, b}, DType::kF32);
}

bool is_along(const ScalarRef& s, int variable) {
  bool found = false;
  visit(s, [&](const Scalar& n) {
    for (const IndexExpr& index : n.indices) found |= uses_var(index, variable);
  });
  return found;
}

std::string text(const ScalarRef& s) {
  if (!s) return "none";
  return print(s, {[](int v) { return std::string(1, static_cast<char>('i' + v)); },
                   [](int symbol) { return std::string(1, static_cast<char>(symbol)); }});
}

std::optional<SumApart> apart(const ScalarRef& product) {
  return sum_apart(
      product, [](const ScalarRef& s) { return !is_along(s, 2); },
      [](const ScalarRef& s) { return !is_along(s, 1); });
}

const ScalarRef kX = read("x", {0, 2}), kQ = read("q", {0, 1, 2}), kZ = read("z", {0, 1}),
                kS = read("s", {0, 1}), kEight = scalar_constant(float_value(DType::kF32, 8));

TEST(SumApart, TakesScalesAndZeroPointsBehindTheSum) {
  const ScalarRef weight = apply(ScalarOp::kMul, apply(ScalarOp::kSub, kQ, kZ), kS);
  const auto sum = apart(apply(ScalarOp::kMul, kX, weight));
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(text(sum->moving), "x[i, k] * q[i, j, k]");
  EXPECT_EQ(text(sum->scale), "s[i, j]");
  EXPECT_EQ(text(sum->zero), "z[i, j]");
  EXPECT_EQ(text(sum->beside), "x[i, k]");
}

TEST(SumApart, LeavesNumbersWithTheValues) {
  const ScalarRef weight = apply(ScalarOp::kMul, apply(ScalarOp::kSub, kQ, kEight), kS);
  const auto sum = apart(apply(ScalarOp::kMul, kX, weight));
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(text(sum->moving), "x[i, k] * (q[i, j, k] - 8.0)");
  EXPECT_EQ(text(sum->zero), "none");
}

TEST(SumApart, LeavesZeroPointsOfWhatIsSummedUpForEachColumn) {
  const ScalarRef own = read("x", {0, 1, 2});
  const auto sum =
      apart(apply(ScalarOp::kMul, apply(ScalarOp::kMul, own, kS), apply(ScalarOp::kSub, kQ, kZ)));
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(text(sum->zero), "none");
  EXPECT_EQ(text(sum->scale), "s[i, j]");
}

TEST(SumApart, IsNothingWhereAllChangesOrNothingDoes) {
  EXPECT_FALSE(apart(apply(ScalarOp::kMul, kX, kQ)).has_value());
  EXPECT_FALSE(apart(apply(ScalarOp::kMul, kZ, kS)).has_value());
  EXPECT_FALSE(apart(apply(ScalarOp::kAdd, kQ, kS)).has_value());
}

}  // namespace
}  // namespace weft
