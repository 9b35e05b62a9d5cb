// Rows of NaN are chosen behind the product that reads them: as text, and with the values of the
// interpreter where rows are masked as a whole.

#include "rewrite/select_behind_products.h"

#include <gtest/gtest.h>

#include <limits>

#include "interp/interpreter.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

bool pass(Graph& graph) { return !select_behind_products(graph).empty(); }

std::string chosen(const std::string& test, const std::string& divisor) {
  return R"((x: f32[2,3,4], v: f32[2,4,5]) {
  m = reduce x, axes={2}, combiner=max : f32[2,3]
  mb = broadcast m, dims={0,1} : f32[2,3,4]
  d = sub x, mb : f32[2,3,4]
  e = exp d : f32[2,3,4]
  s = reduce e, axes={2}, combiner=sum : f32[2,3]
  sb = broadcast s, dims={0,1} : f32[2,3,4]
  q = div e, )" +
         divisor + R"( : f32[2,3,4]
  p = convert q : f16[2,3,4]
  n = is_nan )" +
         test + R"( : bool[2,3,4]
  z = constant 0 : f16[]
  zb = broadcast z, dims={} : f16[2,3,4]
  w = select n, zb, p : f16[2,3,4]
  f = convert w : f32[2,3,4]
  u = convert v : f16[2,4,5]
  y = dot_general w, u, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={1} : f32[2,3,5]
} -> (y=y))";
}

TEST(SelectBehindProducts, RowsOfASoftmax) {
  Graph graph = parsed(chosen("p", "sb"));
  EXPECT_EQ(select_behind_products(graph), std::vector<std::string>{"y"});
  ASSERT_TRUE(verify_graph(graph).ok()) << verify_graph(graph).error().message;
  EXPECT_TRUE(select_behind_products(graph).empty());
  // A row without anything, one with a NaN, one with an infinity, and plain ones.
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  HostTensor x(DType::kF32, {2, 3, 4}), v(DType::kF32, {2, 4, 5});
  for (int64_t i = 0; i < x.size(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i % 7) - 3;
  for (int64_t i = 0; i < v.size(); ++i) v.mutable_data<float>()[i] = static_cast<float>(i % 5) - 1;
  for (int64_t i = 0; i < 4; ++i) x.mutable_data<float>()[i] = -kInf;
  x.mutable_data<float>()[6] = nan;
  x.mutable_data<float>()[9] = kInf;
  x.mutable_data<float>()[14] = -kInf;
  const auto before = interpret(parsed(chosen("p", "sb")), {x, v});
  const auto after = interpret(graph, {x, v});
  ASSERT_TRUE(before.ok() && after.ok());
  for (int64_t i = 0; i < (*before)[0].size(); ++i)
    EXPECT_EQ((*after)[0].at_double(i), (*before)[0].at_double(i)) << i;
}

/// Right operands, whose rows are columns of the result.
TEST(SelectBehindProducts, OfARightOperand) {
  std::string text = chosen("p", "sb");
  const std::string from =
      "dot_general w, u, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, "
      "rhs_contract={1} : f32[2,3,5]";
  text.replace(text.find(from), from.size(),
               "dot_general u, w, lhs_batch={0}, rhs_batch={0}, lhs_contract={1}, "
               "rhs_contract={2} : f32[2,5,3]");
  Graph graph = parsed(text);
  EXPECT_TRUE(pass(graph));
  EXPECT_TRUE(verify_graph(graph).ok()) << verify_graph(graph).error().message;
}

/// Elements that are NaN apart from the others of their row stay where they are.
TEST(SelectBehindProducts, OtherElementsStay) {
  expect_unchanged(pass, chosen("p", "mb"));  // by another value
  std::string text = chosen("p", "sb");
  expect_unchanged(pass, text.replace(text.find("d = sub x, mb"), 13, "d = add x, mb"));
  text = chosen("p", "sb");
  expect_unchanged(pass, text.replace(text.find("combiner=max"), 12, "combiner=min"));
  text = chosen("p", "sb");
  expect_unchanged(pass, text.replace(text.find("constant 0 "), 11, "constant 1 "));
  text = chosen("w0", "sb");
  text.insert(text.find("  n = is_nan"), "  w0 = neg p : f16[2,3,4]\n");
  expect_unchanged(pass, text);
}

}  // namespace
}  // namespace weft
