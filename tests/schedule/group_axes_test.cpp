#include "group/group_axes.h"

#include <gtest/gtest.h>

#include "group/collapse_axes.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

TEST(GroupAxes, FollowReadsThroughReductions) {
  const TensorProgram p = expressed(R"(
(x: f32[4,6]) {
  s = reduce x, axes={1}, combiner=sum : f32[4]
  b = broadcast s, dims={0} : f32[4,6]
  y = sub x, b : f32[4,6]
} -> (y))");
  const auto axes = derive_group_axes(p, whole_group(p));
  ASSERT_TRUE(axes.ok()) << axes.error().message;
  // Both read x, so they walk its columns together too.
  EXPECT_EQ(axes->levels, 2);
  EXPECT_EQ(axes->axis_of[0], axes->axis_of[1]);
}

TEST(GroupAxes, FollowASharedInputIntoWhatFeedsAReduction) {
  const TensorProgram p = expressed(R"(
(x: f32[4,6]) {
  q = mul x, x : f32[4,6]
  s = reduce q, axes={1}, combiner=sum : f32[4]
  b = broadcast s, dims={0} : f32[4,6]
  y = div x, b : f32[4,6]
} -> (y))");
  const auto axes = derive_group_axes(p, whole_group(p));
  ASSERT_TRUE(axes.ok()) << axes.error().message;
  // The square's columns are those that the quotient walks.
  EXPECT_EQ(axes->axes.size(), 2U);
}

TEST(GroupAxes, FollowASharedInputWhateverTheOrderOfItsAxes) {
  // Rows of windows: the index of two axes is a quotient and a remainder of the row.
  const std::string text = R"(
(x: f32[1,8,3,5]) {
  t = transpose x, permutation={ORDER} : f32[SHAPE]
  r = reshape t : f32[15,8]
  s = reduce r, axes={1}, combiner=sum : f32[15]
  b = broadcast s, dims={0} : f32[15,8]
  y = sub r, b : f32[15,8]
} -> (y))";
  const auto axes_with = [&](const std::string& input, const std::string& order) {
    std::string graph = text;
    graph.replace(graph.find("1,8,3,5"), 7, input);
    graph.replace(graph.find("ORDER"), 5, order);
    graph.replace(graph.find("SHAPE"), 5, "1,3,5,8");
    const TensorProgram p = expressed(graph);
    const auto axes = derive_group_axes(p, whole_group(p));
    EXPECT_TRUE(axes.ok()) << axes.error().message;
    return axes->axis_of;
  };
  const auto channels_first = axes_with("1,8,3,5", "0,2,3,1");
  EXPECT_EQ(channels_first[0], channels_first[1]);
  EXPECT_EQ(channels_first, axes_with("1,3,5,8", "0,1,2,3"));
}

TEST(GroupAxes, RefuseAShiftedRead) {
  const TensorProgram p = expressed(R"(
(x: f32[8]) {
  a = exp x : f32[8]
  l = slice a, start={0}, step={1} : f32[7]
  r = slice a, start={1}, step={1} : f32[7]
  y = sub r, l : f32[7]
} -> (y))");
  const auto axes = derive_group_axes(p, whole_group(p));
  ASSERT_FALSE(axes.ok());
  EXPECT_NE(axes.error().message.find("not element by element"), std::string::npos)
      << axes.error().message;
}

TEST(CollapseAxes, WalksAContiguousTensorAsOneAxis) {
  const TensorProgram p = expressed(R"(
(x: f32[2,3,4], z: f32[2,3,4]) {
  y = add x, z : f32[2,3,4]
} -> (y))");
  const auto collapsed = collapse_axes(p, whole_group(p));
  ASSERT_TRUE(collapsed.ok());
  const GroupView& view = collapsed->view;
  ASSERT_EQ(view.program.exprs.size(), 1U);
  EXPECT_EQ(view.program.exprs[0].extents, (std::vector<int64_t>{24}));
}

TEST(CollapseAxes, KeepsAnAxisThatABroadcastNeeds) {
  const TensorProgram p = expressed(R"(
(x: f32[2,3,4], z: f32[4]) {
  b = broadcast z, dims={2} : f32[2,3,4]
  y = add x, b : f32[2,3,4]
} -> (y))");
  const auto collapsed = collapse_axes(p, whole_group(p));
  ASSERT_TRUE(collapsed.ok());
  const GroupView& view = collapsed->view;
  EXPECT_EQ(view.program.exprs.back().extents, (std::vector<int64_t>{6, 4}));
}

}  // namespace
}  // namespace weft
