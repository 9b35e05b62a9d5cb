// What the members of a group owe a block, figures worked out by hand.

#include "schedule/stages/demand_boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

BlockPartition partition(const std::string& text) {
  TextCursor cursor(text);
  auto out = parse_partition(cursor);
  EXPECT_TRUE(out.ok()) << text;
  return out.ok() ? *out : BlockPartition{};
}

/// The boxes as text, or why there are none.
std::string owed(const std::string& graph, const std::string& cut) {
  const TensorProgram program = expressed(graph);
  const auto demand = demand_boxes(program, whole_group(program), partition(cut));
  return demand.ok() ? print(*demand) : demand.error().message;
}

/// Two products with rows normed between them. Of 8 queries a block owes their scores against all
/// keys.
const char* const kRowsBetweenProducts = R"((q: f32[2,32,16], k: f32[2,48,16], v: f32[2,48,16]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,32,48]
  m = reduce a, axes={2}, combiner=max : f32[2,32]
  mb = broadcast m, dims={0,1} : f32[2,32,48]
  d = sub a, mb : f32[2,32,48]
  y = dot_general d, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,32,16]
} -> (y))";

TEST(DemandBoxes, RowsAreWholeWhereTheyAreReduced) {
  EXPECT_EQ(owed(kRowsBetweenProducts, "v3: d0 1, d1 8"), R"(i0 in 0..2 step 1; i1 in 0..32 step 8
v0: [i0] [i1, +8) [0, +48) made 1.00 times
v1: [i0] [i1, +8) made 1.00 times
v2: [i0] [i1, +8) [0, +48) made 1.00 times
v3: [i0] [i1, +8) [0, +16) made 1.00 times
)");
}

/// Cutting the result's columns makes the rows again in each of the 4 blocks that have some.
TEST(DemandBoxes, WhatBlocksShareIsMadeAgain) {
  EXPECT_THAT(owed(kRowsBetweenProducts, "v3: d0 1, d2 4"),
              HasSubstr("v0: [i0] [0, +32) [0, +48) made 4.00 times\n"));
}

/// What no turn changes is made before the turns: once for each of the 2 batches.
TEST(DemandBoxes, TurnsAreAroundWhatTheyChange) {
  const char* const graph = R"((k: f32[2,48,16], q: f32[2,32,16]) {
  e = exp k : f32[2,48,16]
  y = dot_general q, e, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,32,48]
} -> (y))";
  EXPECT_EQ(owed(graph, "v1: d0 1; d1 8"), R"(i0 in 0..2 step 1; i1 in 0..32 step 8
v0: [i0] [0, +48) [0, +16) made 1.00 times
v1: [i0] [i1, +8) [0, +48) made 1.00 times
)");
  EXPECT_THAT(owed(graph, "v1: d0 1, d1 8"), HasSubstr("v0: [i0] [0, +48) [0, +16) made 4.00"));
  // Turns within a block's piece of the same axis.
  EXPECT_THAT(owed(graph, "v1: d0 1, d1 16; d1 8"),
              HasSubstr("v0: [i0] [0, +48) [0, +16) made 2.00"));
}

/// Windows of 3 around 8 elements reach over 10, the last block's over the border, too.
TEST(DemandBoxes, WindowsReachIntoTheNeighbours) {
  EXPECT_EQ(owed(R"((x: f32[64]) {
  e = exp x : f32[64]
  y = reduce_window e, window={3}, strides={1}, dilations={1}, low={1}, high={1}, combiner=sum : f32[64]
} -> (y))",
                 "v1: d0 8"),
            R"(i0 in 0..64 step 8
v0: [i0 - 1, +10) made 1.25 times
v1: [i0, +8) made 1.00 times
)");
}

TEST(DemandBoxes, ReshapesTakeBoxesApart) {
  const char* const graph = R"((x: f32[8,64]) {
  e = exp x : f32[8,64]
  r = reshape e : f32[512]
  y = neg r : f32[512]
} -> (y))";
  EXPECT_THAT(owed(graph, "v1: d0 16"),
              HasSubstr("v0: [i0 floordiv 64] [i0 mod 64, +16) made 1.00 times\n"));
  EXPECT_THAT(owed(graph, "v1: d0 128"), HasSubstr("v0: [i0 floordiv 64, +2) [0, +64) made 1.00"));
  // Pieces of 24 lie across the rows of 64: of two rows all is made.
  EXPECT_THAT(owed(graph, "v1: d0 24"), HasSubstr("v0: [i0 floordiv 64, +2) [0, +64) made 5.50"));
}

TEST(DemandBoxes, AnIndexFromDataHasItsWholeAxis) {
  EXPECT_THAT(owed(R"((t: f32[50,16], i: i64[32]) {
  e = exp t : f32[50,16]
  y = gather e, i, axis=0, batch_dims=0 : f32[32,16]
} -> (y))",
                   "v1: d0 8"),
              HasSubstr("v0: [0, +50) [0, +16) made 4.00 times\n"));
}

TEST(DemandBoxes, OutputsAreStoredOnce) {
  const char* const graph = R"((x: f32[32,16]) {
  m = reduce x, axes={1}, combiner=max : f32[32]
  mb = broadcast m, dims={0} : f32[32,16]
  y = sub x, mb : f32[32,16]
} -> (m, y))";
  EXPECT_THAT(owed(graph, "v1: d0 8"), HasSubstr("v0: [i0, +8) made 1.00 times\n"));
  EXPECT_EQ(owed(graph, "v1: d1 4"), "blocks store the same elements several times of m");
}

TEST(DemandBoxes, SaysWhatIsNoPartition) {
  const char* const graph = "(x: f32[32,16]) {\n  y = exp x : f32[32,16]\n} -> (y)";
  for (const char* const cut : {"v1: d0 4", "v0: d2 4", "v0: d0 8; d0 3", "v0, v0: d0|d1 4"}) {
    const TensorProgram program = expressed(graph);
    const auto demand = demand_boxes(program, whole_group(program), partition(cut));
    ASSERT_FALSE(demand.ok()) << cut;
    EXPECT_EQ(demand.error().code, ErrorCode::kInvalidInput) << demand.error().message;
  }
}

}  // namespace
}  // namespace weft
