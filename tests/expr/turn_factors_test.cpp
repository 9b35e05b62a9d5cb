#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expr/movement/assign_layouts.h"
#include "expr/movement/fold_movement.h"
#include "expr/movement/order_sums.h"
#include "expr/movement/turn_rows.h"
#include "expr/movement/turn_windows.h"
#include "tests/expr/after_passes.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

bool fold(TensorProgram& program) { return fold_movement(program); }
bool order(TensorProgram& program) { return order_sums(program); }
bool lay_out(TensorProgram& program) { return assign_layouts(program, true); }
bool turn(TensorProgram& program) { return turn_windows(program); }

/// The gradient of a 3x3 convolution's weights: images stand for channels.
std::string weights_gradient(int64_t images, int64_t channels, int64_t size) {
  return fmt::format(R"((x: f32[{0},{1},{2},{2}], dy: f32[{0},8,{2},{2}]) {{
    a = transpose x, permutation={{1,0,2,3}} : f32[{1},{0},{2},{2}]
    b = transpose dy, permutation={{1,0,2,3}} : f32[8,{0},{2},{2}]
    y = convolution a, b, strides={{1,1}}, low={{1,1}}, high={{1,1}}, lhs_dilations={{1,1}}, rhs_dilations={{1,1}}, groups=1 : f32[{1},8,3,3]
  }} -> (y))",
                     images, channels, size);
}

TEST(OrderSums, WhatGoesByPagesIsOutermost) {
  const std::string large = after(weights_gradient(3, 4, 24), {fold, order});
  EXPECT_THAT(large, HasSubstr("y: f32[4,8,3,3] = contraction sum[3, 24, 24]:f32"));
  EXPECT_THAT(large, HasSubstr("dy[r0, d1, r1, r2]"));
  // Of smaller images a page holds several.
  EXPECT_THAT(after(weights_gradient(3, 4, 5), {fold, order}),
              HasSubstr("contraction sum[5, 5, 3]"));
  // Channels are a page apart in the image and neighbours in the weights.
  EXPECT_THAT(after(R"((x: f32[1,4,40,40], w: f32[8,4,3,3]) {
    y = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,8,40,40]
  } -> (y))",
                    {fold, order}),
              HasSubstr("contraction sum[3, 3, 4]"));
}

constexpr const char* kByChannels =
    R"((x: f32[1,16,6,6], v: f32[16,16,3,3], w: f32[16,1,3,3]) {
    a = convolution x, v, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,16,6,6]
    b = convolution a, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=16 : f32[1,16,6,6]
    y = convolution b, v, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,16,6,6]
  } -> (y))";

TEST(TurnWindows, ThoseOfEachChannelLieSideBySide) {
  const std::string turned = after(kByChannels, {fold, lay_out, turn});
  EXPECT_THAT(turned,
              HasSubstr("w_turned: f32[16,1,3,3] layout {2,1,3}{3,1,3}{1,1,1}{0,1,16} = w["));
  EXPECT_THAT(turned, HasSubstr("* w_turned[d1, 0, r0, r1]"));
  // As the model says, rows are innermost.
  EXPECT_THAT(after(kByChannels, {fold, turn}), Not(HasSubstr("turned")));
}

/// One copy for both convolutions that want the same order: windows outermost, as the sum goes over
/// the image. Transposed ones want the other axis of channels innermost.
TEST(TurnWindows, WeightsLieAsTheSumGoesOverTheImage) {
  const std::string turned = after(kByChannels, {fold, lay_out, turn});
  EXPECT_THAT(turned,
              HasSubstr("v_turned: f32[16,16,3,3] layout {2,1,3}{3,1,3}{1,1,16}{0,1,16} = v["));
  EXPECT_THAT(turned, HasSubstr("* v_turned[d1, r2, r0, r1]"));
  EXPECT_THAT(turned, Not(HasSubstr("v_turned_2")));
  const std::string of_transposed = after(
      R"((x: f32[1,16,6,6], v: f32[16,20,2,2]) {
    a = tanh x : f32[1,16,6,6]
    f = slice v, start={0,0,1,1}, step={1,1,-1,-1} : f32[16,20,2,2]
    t = transpose f, permutation={1,0,2,3} : f32[20,16,2,2]
    b = convolution a, t, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={2,2}, rhs_dilations={1,1}, groups=1 : f32[1,20,12,12]
    y = tanh b : f32[1,20,12,12]
  } -> (y))",
      {fold, lay_out, turn});
  EXPECT_THAT(of_transposed,
              HasSubstr("v_turned: f32[16,20,2,2] layout {2,1,2}{3,1,2}{0,1,16}{1,1,20} = v["));
}

/// In groups the channels of the results are those of one group, `d1 mod 16`.
TEST(TurnWindows, WeightsOfTransposedGroupsLieByTheirResults) {
  const std::string turned = after(
      R"((x: f32[1,32,6,6], v: f32[32,16,2,2]) {
    a = tanh x : f32[1,32,6,6]
    f = slice v, start={0,0,1,1}, step={1,1,-1,-1} : f32[32,16,2,2]
    g = reshape f : f32[2,16,16,2,2]
    t = transpose g, permutation={0,2,1,3,4} : f32[2,16,16,2,2]
    w = reshape t : f32[32,16,2,2]
    b = convolution a, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={2,2}, rhs_dilations={1,1}, groups=2 : f32[1,32,12,12]
    y = tanh b : f32[1,32,12,12]
  } -> (y))",
      {fold, lay_out, turn});
  EXPECT_THAT(turned,
              HasSubstr("v_turned: f32[32,16,2,2] layout {2,1,2}{3,1,2}{0,1,32}{1,1,16} = v["));
}

/// Heads of a matrix's columns are no windows, though they are indexed so.
TEST(TurnWindows, HeadsOfAMatrixStay) {
  const std::string turned = after(
      R"((q: f32[40,64], k: f32[40,4,16]) {
    a = reshape q : f32[40,4,16]
    y = dot_general a, k, lhs_batch={1}, rhs_batch={1}, lhs_contract={2}, rhs_contract={2} : f32[4,40,40]
  } -> (y))",
      {fold, turn});
  EXPECT_THAT(turned, HasSubstr("q[d1, d0 * 16 + r0] * k[d2, d0, r0]"));
}

bool turn_long_rows(TensorProgram& program) { return turn_rows(program, 0); }
/// Of a processor whose second cache holds little.
bool turn_large_rows(TensorProgram& program) { return turn_rows(program, 64 << 10); }

/// The gradient of a matrix: neighbouring rows of the result lie side by side in the left factor.
std::string product_of(int depth, int rows, int columns, Pass turn = turn_long_rows) {
  const std::string k = std::to_string(depth), m = std::to_string(rows),
                    n = std::to_string(columns);
  return after("(a: f32[" + k + "," + m + "], b: f32[" + k + "," + n +
                   "]) {\n    y = dot_general a, b, lhs_contract={0}, rhs_contract={0} : f32[" + m +
                   "," + n + "]\n  } -> (y)",
               {fold, turn});
}

TEST(TurnRows, SumsGoAlongTheLeftFactor) {
  EXPECT_EQ(product_of(9, 40, 256),
            "a_rows: f32[9,40] layout {1,1,40}{0,1,9} = a[d0, d1]\n"
            "y: f32[40,256] = contraction sum[9]:f32 a_rows[r0, d0] * b[r0, d1]\n"
            "output y as y\n");
}

/// What is as long as the result's rows fills vectors as it lies, be the other factor small.
TEST(TurnRows, ColumnsStay) {
  const std::string turned = after(
      R"((a: f32[9,12], b: f32[9,512]) {
    y = dot_general a, b, lhs_contract={0}, rhs_contract={0} : f32[12,512]
  } -> (y))",
      {fold, turn_long_rows});
  EXPECT_THAT(turned, Not(HasSubstr("rows")));
}

/// Where all lengths are known, what a cache holds stays, and of what it does not fewer columns are
/// worth a copy.
TEST(TurnRows, CachesHoldWhatIsSmall) {
  EXPECT_THAT(product_of(257, 32, 64, turn_large_rows), HasSubstr("a_rows"));
  EXPECT_THAT(product_of(257, 32, 63, turn_large_rows), Not(HasSubstr("a_rows")));
  EXPECT_THAT(product_of(256, 32, 512, turn_large_rows), Not(HasSubstr("a_rows")));
}

/// Few columns, and steps that are short.
TEST(TurnRows, LittleIsReadAsItLies) {
  EXPECT_THAT(product_of(9, 40, 255), Not(HasSubstr("rows")));
  EXPECT_THAT(product_of(9, 31, 256), Not(HasSubstr("rows")));
}

/// The image that a window slides over, not the results that stand still, whichever comes first:
/// rows of channels, along which the sum goes over the places.
TEST(TurnRows, ImagesOfAGradientLieByChannels) {
  const std::string turned = after(
      R"((x: f32[2,18,18,32], g: f32[2,16,16,32]) {
    xt = transpose x, permutation={3,0,1,2} : f32[32,2,18,18]
    gt = transpose g, permutation={3,0,1,2} : f32[32,2,16,16]
    y = convolution xt, gt, strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[32,32,3,3]
  } -> (y))",
      {fold, turn_long_rows});
  EXPECT_THAT(turned,
              HasSubstr("x_rows: f32[2,18,18,32] layout {3,1,32}{0,1,2}{1,1,18}{2,1,18} = x["));
  EXPECT_THAT(turned, Not(HasSubstr("g_rows")));
}

/// Where both lie along the sum, places of a window alone are neighbours in the image: the channels
/// of the results fill vectors.
TEST(TurnRows, ResultsOfAGradientLieByTheirChannels) {
  const auto turned = [](const std::string& channels) {
    return after("(x: f32[2,4,18,18], g: f32[2," + channels + R"(,16,16]) {
    xt = transpose x, permutation={1,0,2,3} : f32[4,2,18,18]
    gt = transpose g, permutation={1,0,2,3} : f32[)" +
                     channels +
                     R"(,2,16,16]
    y = convolution xt, gt, strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[4,)" +
                     channels + R"(,3,3]
  } -> (y))",
                 {fold, turn_long_rows});
  };
  EXPECT_THAT(turned("8"),
              HasSubstr("g_rows: f32[2,8,16,16] layout {0,1,2}{2,1,16}{3,1,16}{1,1,8} = g["));
  EXPECT_THAT(turned("7"), Not(HasSubstr("rows")));
}

/// Channels of a group have neighbours where its image stays the same; four are too few.
TEST(TurnRows, ResultsOfAGradientInGroupsLieByTheirChannels) {
  const auto turned = [](int groups) {
    return after(fmt::format(R"((x: f32[2,16,18,18], g: f32[2,16,16,16]) {{
    xs = reshape x : f32[2,{0},{1},18,18]
    xp = transpose xs, permutation={{2,1,0,3,4}} : f32[{1},{0},2,18,18]
    xt = reshape xp : f32[{1},{2},18,18]
    gt = transpose g, permutation={{1,0,2,3}} : f32[16,2,16,16]
    y = convolution xt, gt, strides={{1,1}}, low={{0,0}}, high={{0,0}}, lhs_dilations={{1,1}}, rhs_dilations={{1,1}}, groups={0} : f32[{1},16,3,3]
  }} -> (y))",
                             groups, 16 / groups, 2 * groups),
                 {fold, turn_long_rows});
  };
  EXPECT_THAT(turned(2),
              HasSubstr("g_rows: f32[2,16,16,16] layout {0,1,2}{2,1,16}{3,1,16}{1,1,16}"));
  EXPECT_THAT(turned(4), Not(HasSubstr("rows")));
}

}  // namespace
}  // namespace weft
