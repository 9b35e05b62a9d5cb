#include "group/two_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Taken {
  Decision decision = Decision::allow();
  TwoWays ways;
  bool may = false;
};

Taken take_apart(const std::string& text) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  const auto axes = derive_group_axes(program, group);
  EXPECT_TRUE(axes.ok()) << axes.error().message;
  Taken out;
  out.decision = find_two_ways(program, group, *axes, &out.ways);
  const auto reduces = reduced_sizes(program, group);
  out.may = reduces && reduces->both_ways();
  return out;
}

TEST(TwoWays, RowsWhatIsReducedAcrossThemAndWhatFollows) {
  const Taken taken = take_apart(R"(
(x: f32[5,7]) {
  r = reduce x, axes={1}, combiner=max : f32[5]
  b = broadcast r, dims={0} : f32[5,7]
  d = sub x, b : f32[5,7]
  q = reduce d, axes={0}, combiner=sum : f32[7]
  z = neg q : f32[7]
} -> (d, z))");
  ASSERT_TRUE(taken.decision) << taken.decision.reason();
  using enum TwoWays::Part;
  EXPECT_THAT(taken.ways.part, ElementsAre(kRow, kRow, kAcross, kTail));
  EXPECT_EQ(taken.ways.along.size(), 1u);
  EXPECT_TRUE(taken.may);
}

TEST(TwoWays, NumbersOfElementsAloneForbidMostGroups) {
  EXPECT_FALSE(take_apart(R"(
(x: f32[5,7]) {
  r = reduce x, axes={1}, combiner=max : f32[5]
} -> (r))")
                   .may);
  EXPECT_FALSE(take_apart(R"(
(x: f32[3,5,7]) {
  r = reduce x, axes={2}, combiner=max : f32[3,5]
  q = reduce x, axes={1}, combiner=sum : f32[3,7]
} -> (r, q))")
                   .may);
  EXPECT_TRUE(take_apart(R"(
(x: f32[6,6]) {
  r = reduce x, axes={1}, combiner=max : f32[6]
  q = reduce x, axes={0}, combiner=sum : f32[6]
} -> (r, q))")
                  .may);
}

TEST(TwoWays, SayWhyNot) {
  EXPECT_THAT(take_apart(R"(
(x: f32[5,7]) {
  r = reduce x, axes={1}, combiner=max : f32[5]
} -> (r))")
                  .decision.reason(),
              HasSubstr("does not reduce in two ways"));
  EXPECT_THAT(take_apart(R"(
(x: f32[5,7]) {
  q = reduce x, axes={0}, combiner=sum : f32[7]
  b = broadcast q, dims={1} : f32[5,7]
  d = sub x, b : f32[5,7]
  r = reduce d, axes={1}, combiner=max : f32[5]
} -> (r))")
                  .decision.reason(),
              HasSubstr("needs what all rows make before a row is left"));
  EXPECT_THAT(take_apart(R"(
(x: f32[3,5,7]) {
  r = reduce x, axes={2}, combiner=max : f32[3,5]
  q = reduce x, axes={1}, combiner=sum : f32[3,7]
} -> (r, q))")
                  .decision.reason(),
              HasSubstr("runs along an axis that nothing reduces"));
}

}  // namespace
}  // namespace weft
