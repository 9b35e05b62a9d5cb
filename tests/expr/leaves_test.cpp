#include "expr/leaves.h"

#include <gtest/gtest.h>

#include <array>

namespace weft {
namespace {

const IndexExpr d0 = IndexExpr::var(0), d1 = IndexExpr::var(1);

ScalarRef read(int symbol, std::vector<IndexExpr> indices, std::vector<ScalarRef> runtime = {},
               ScalarRef fill = nullptr) {
  return scalar_read(symbol, DType::kF32, std::move(indices), std::move(runtime), std::move(fill));
}
ScalarRef add(const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(ScalarOp::kAdd, {a, b}, DType::kF32);
}
std::string text(const ScalarRef& s) {
  return print(s, {[](int id) { return "d" + std::to_string(id); },
                   [](int id) { return std::string(1, static_cast<char>('x' + id)); }});
}

/// A gather with a fill, an index as a value, a constant, and a read that stands in it twice.
ScalarRef body() {
  const ScalarRef shared = read(0, {d0, d1 + 2});
  const ScalarRef place = scalar_read(1, DType::kI64, {d1});
  const ScalarRef gathered =
      read(2, {IndexExpr::var(kRuntimeIndexBase), d0}, {place}, read(0, {d1, d0}));
  const ScalarRef number = scalar_index(d0 * 4 + d1, DType::kF32);
  return add(add(add(shared, gathered), add(number, shared)),
             scalar_constant(float_value(DType::kF32, 2)));
}

TEST(Leaves, AreListedOnceInTheOrderOfVisits) {
  const ScalarRef s = body();
  std::vector<int> visited, listed;
  visit(s, [&](const Scalar& node) {
    if (node.kind == Scalar::Kind::kRead) visited.push_back(node.symbol);
    if (node.kind == Scalar::Kind::kIndex) visited.push_back(-1);
  });
  for (const Leaf& leaf : leaves_of(s)) listed.push_back(leaf.symbol);
  EXPECT_EQ(listed, (std::vector<int>{0, 1, 0, 2, -1}));
  EXPECT_EQ(listed, visited);
}

TEST(Leaves, StandWhereTheirOwnersWere) {
  const ScalarRef s = body();
  EXPECT_EQ(with_leaves(s, leaves_of(s)), s) << "nothing to write";
  std::vector<Leaf> leaves = leaves_of(s);
  rename_variables(std::array{d1, d0}, leaves);
  leaves[1].symbol = 3;
  const ScalarRef renamed = with_leaves(s, leaves);
  const ScalarRef expected = rewrite(
      s, [](int var) { return IndexExpr::var(1 - var); },
      [](const ScalarRef& r) {
        return r->symbol == 1 ? scalar_read(3, DType::kI64, r->indices) : r;
      });
  EXPECT_EQ(text(renamed), text(expected));
  EXPECT_TRUE(equal(renamed, expected));
  EXPECT_EQ(operation_count(renamed), operation_count(s));
  EXPECT_EQ(leaves_of(renamed).size(), leaves.size()) << "what is shared stays so";
}

}  // namespace
}  // namespace weft
