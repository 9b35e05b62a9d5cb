#include "group/merge_side_by_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "expr/tensor_program.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::string merged(const std::string& text) {
  const auto program = parse_tensor_program("program {\n" + text + "}\n", {});
  EXPECT_TRUE(program.ok()) << program.error().message;
  if (!program.ok()) return "";
  Group all;
  for (size_t e = 0; e < program->exprs.size(); ++e) all.exprs.push_back(static_cast<ExprId>(e));
  all.outputs = program->outputs;
  GroupCut cut = begin_cut(*program, all, {});
  merge_side_by_side(cut);
  return print(finished(std::move(cut)).program);
}

/// A window's tokens are rows, columns, and what is reduced: no axes that all have in common.
constexpr const char* kWindows = R"(  input q: f32[4,2,3,8]
  input k: f32[4,2,3,8]
  input v: f32[4,2,3,8]
  input b: f32[6,6]
  s: f32[4,2,3,2,3] = contraction sum[8]:f32 q[d0, d1, d2, r0] * k[d0, d3, d4, r0]
  t: f32[4,2,3,2,3] = s[d0, d1, d2, d3, d4] + b[d1 * 3 + d2, d3 * 3 + d4]
  y: f32[4,2,3,8] = contraction sum[2, 3]:f32 t[d0, d1, d2, r0, r1] * v[d0, r0, r1, d3]
)";

TEST(MergeSideBySide, MakesOneAxisOfRowsColumnsAndWhatIsReduced) {
  const std::string text = merged(std::string(kWindows) + "  output y as y\n");
  EXPECT_THAT(text, HasSubstr("s: f32[4,6,6] = contraction sum[8]:f32 q[d0, d1, r0] * "
                              "k[d0, d2, r0]"));
  EXPECT_THAT(text, HasSubstr("t: f32[4,6,6] = s[d0, d1, d2] + b[d1, d2]"));
  EXPECT_THAT(text, HasSubstr("y: f32[4,6,8] = contraction sum[6]:f32 t[d0, d1, r0] * "
                              "v[d0, r0, d2]"));
}

TEST(MergeSideBySide, LeavesWhatAReaderWalksOtherwise) {
  const std::string text = merged(std::string(kWindows) +
                                  "  z: f32[4,3,2,8] = exp(y[d0, d2, d1, d3])\n  output z as z\n");
  EXPECT_THAT(text, HasSubstr("s: f32[4,2,3,6] = contraction sum[8]:f32 q[d0, d1, d2, r0] * "
                              "k[d0, d3, r0]"));
  EXPECT_THAT(text, HasSubstr("y: f32[4,2,3,8] = contraction sum[6]:f32 t[d0, d1, d2, r0] * "
                              "v[d0, r0, d3]"));
  EXPECT_THAT(text, HasSubstr("z: f32[4,3,2,8] = exp(y[d0, d2, d1, d3])"));
}

/// Rows and columns come from one tensor: the scores have two pairs at once.
TEST(MergeSideBySide, MakesSeveralPairsOneTogether) {
  const std::string text = merged(R"(  input x: f32[4,2,3,16]
  q: f32[4,2,3,8] = x[d0, d1, d2, d3] * 0.5
  s: f32[4,2,3,2,3] = contraction sum[8]:f32 q[d0, d1, d2, r0] * x[d0, d3, d4, r0 + 8]
  output s as s
)");
  EXPECT_THAT(text, HasSubstr("q: f32[4,6,8] = x[d0, d1, d2] * 0.5"));
  EXPECT_THAT(text, HasSubstr("s: f32[4,6,6] = contraction sum[8]:f32 q[d0, d1, r0] * "
                              "x[d0, d2, r0 + 8]"));
}

/// Of a tensor that another member reads in pieces nothing is merged.
TEST(MergeSideBySide, LeavesWhatIsReadInPieces) {
  const std::string text = merged(R"(  input x: f32[4,2,3]
  y: f32[4] = sum[2, 3]:f32 x[d0, r0, r1]
  z: f32[4,2,2] = x[d0, d1, d2 + 1] * y[d0]
  output z as z
)");
  EXPECT_THAT(text, HasSubstr("y: f32[4] = sum[2, 3]:f32 x[d0, r0, r1]"));
}

}  // namespace
}  // namespace weft
