// What accesses of a warp ask of a multiprocessor, counted by hand.

#include "cost/warp_access.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Level = PlaceLevel;

/// [v0=REG_2-LANE_8, v1=LANE_4-VEC_4]
Place place() {
  return {{{0, {{Level::kReg, 2}, {Level::kLane, 8}}}, {1, {{Level::kLane, 4}, {Level::kVec, 4}}}}};
}

WarpAccess access(const AffineForm& offset, const std::vector<TileVarId>& box = {0, 1}) {
  return warp_access(place(), box, offset, 4);
}

TEST(WarpAccess, LanesBesideEachOtherShareLines) {
  const WarpAccess rows = access({{{0, 16}, {1, 1}}, 0});  // 8 lanes of 64 bytes, in order
  EXPECT_EQ(rows.instructions, 2);
  EXPECT_EQ(rows.lines, 8 * 64 / 128);
}

TEST(WarpAccess, LanesInRowsOfTheirOwnHaveALineEach) {
  const WarpAccess rows = access({{{0, 1024}, {1, 1}}, 0});
  EXPECT_EQ(rows.instructions, 2);
  EXPECT_EQ(rows.lines, 8);
  // Along columns a vector is as many instructions, and all lanes are rows apart.
  const WarpAccess columns = access({{{0, 1}, {1, 1024}}, 0});
  EXPECT_EQ(columns.instructions, 2 * 4);
  EXPECT_EQ(columns.lines, 4);
}

TEST(WarpAccess, WhatDoesNotMoveIsOneElement) {
  const WarpAccess one = access({{{7, 5}}, 3});
  EXPECT_EQ(one.instructions, 1);
  EXPECT_EQ(one.lines, 1);
  const WarpAccess outside = access({{{0, 1024}, {1, 1}}, 0}, {1});
  EXPECT_EQ(outside.instructions, 1);
  EXPECT_EQ(outside.lines, 1);
}

}  // namespace
}  // namespace weft
