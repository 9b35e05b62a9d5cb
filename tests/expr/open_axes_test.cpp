#include "expr/movement/open_axes.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

TensorProgram program_of(const std::string& text) {
  auto program = parse_tensor_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? std::move(*program) : TensorProgram{};
}

std::string rows(const std::string& n, const std::string& op = "exp") {
  return "program {\n  input x: f32[" + n + ",8]\n  y: f32[" + n + ",8] = " + op +
         "(x[d0, d1])\n  z: f32[8] = sum[" + n + "]:f32 y[r0, d0]\n  output z as z\n}\n";
}

TEST(OpenAxes, AreThoseWhoseExtentsDiffer) {
  TensorProgram here = program_of(rows("20")), there = program_of(rows("40"));
  EXPECT_TRUE(mark_open_axes(here, there));
  EXPECT_EQ(here.exprs[0].open, (std::vector<bool>{true, false}));
  EXPECT_EQ(here.exprs[1].open, (std::vector<bool>{false, true}));
  EXPECT_EQ(there.exprs[1].open, here.exprs[1].open);
}

TEST(OpenAxes, ArePrintedAndReadBack) {
  TensorProgram here = program_of(rows("20")), there = program_of(rows("40"));
  ASSERT_TRUE(mark_open_axes(here, there));
  const std::string text = print(here);
  EXPECT_NE(text.find("open {0}"), std::string::npos) << text;
  const TensorProgram again = program_of(text);
  EXPECT_EQ(print(again), text);
  EXPECT_TRUE(again.exprs[1].is_open(1));
  EXPECT_FALSE(parse_tensor_program(rows("20", "exp").insert(70, " open {9}")).ok());
}

TEST(OpenAxes, NeedTheSameProgram) {
  TensorProgram here = program_of(rows("20")), there = program_of(
                                                   "program {\n  input x: f32[40,8]\n"
                                                   "  output x as z\n}\n");
  EXPECT_FALSE(mark_open_axes(here, there));
  EXPECT_TRUE(here.exprs[0].open.empty());
}

TEST(OpenAxes, AreNoneOfExpressionsThatDifferInMore) {
  const auto differ = [](const std::string& here, const std::string& there) {
    const TensorProgram a = program_of(here), b = program_of(there);
    EXPECT_EQ(a.exprs.size(), b.exprs.size());
    for (size_t e = 0; e < a.exprs.size(); ++e) {
      if (!differs_in_numbers_only(a.exprs[e], b.exprs[e])) return true;
    }
    return false;
  };
  EXPECT_FALSE(differ(rows("20"), rows("40")));
  EXPECT_TRUE(differ(rows("20"), rows("20", "sqrt")));
  // One row is no axis to most of what plans a kernel: its reductions are others.
  EXPECT_TRUE(differ(rows("20"), rows("1")));
  const auto shifted = [](const std::string& by) {
    return "program {\n  input x: f32[9,8]\n  y: f32[4,8] = x[" + by +
           ", d1]\n  output y as y\n}\n";
  };
  EXPECT_FALSE(differ(shifted("d0 + 1"), shifted("d0 + 5")));
  EXPECT_TRUE(differ(shifted("d0 + 1"), shifted("3")));
}

}  // namespace
}  // namespace weft
