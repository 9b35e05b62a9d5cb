// Rows on blocks of fewer warps.

#include "schedule/gpu/narrow_rows.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Digits = std::vector<Place::Digit>;

/// Rows along axis 1, eight of them beside each other.
RowsChoice rows_beside_each_other() {
  RowsChoice choice;
  choice.vec_axis = 1;
  choice.free = {0};
  choice.row = {1};
  choice.warps = 8;
  choice.digits[0] = {{PlaceLevel::kWarp, 8}};
  choice.digits[1] = {{PlaceLevel::kReg, 2}, {PlaceLevel::kLane, 32}, {PlaceLevel::kVec, 4}};
  return choice;
}

TEST(NarrowRows, HaveFewerRowsABlock) {
  const RowsChoice wide = rows_beside_each_other();
  const auto four = narrow_rows(wide, 4);
  ASSERT_TRUE(four.has_value());
  EXPECT_EQ(four->warps, 4);
  EXPECT_EQ(four->digits.at(0), (Digits{{PlaceLevel::kWarp, 4}}));
  EXPECT_EQ(four->digits.at(1), wide.digits.at(1));
  const auto one = narrow_rows(wide, 1);
  ASSERT_TRUE(one.has_value());
  EXPECT_TRUE(one->digits.at(0).empty());
}

TEST(NarrowRows, ThatWarpsShareHaveMoreElementsForAThread) {
  RowsChoice shared = rows_beside_each_other();
  shared.digits[0].clear();
  shared.digits[1] = {{PlaceLevel::kReg, 2},
                      {PlaceLevel::kWarp, 8},
                      {PlaceLevel::kLane, 32},
                      {PlaceLevel::kVec, 4}};
  const auto two = narrow_rows(shared, 2);
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->digits.at(1), (Digits{{PlaceLevel::kReg, 8},
                                       {PlaceLevel::kWarp, 2},
                                       {PlaceLevel::kLane, 32},
                                       {PlaceLevel::kVec, 4}}));
  // 16 registers of vectors of 4 are what a thread may hold; a row that is swept holds none.
  shared.digits[1][0].extent = 8;
  EXPECT_FALSE(narrow_rows(shared, 2).has_value());
  shared.resident = false;
  const auto swept = narrow_rows(shared, 2);
  ASSERT_TRUE(swept.has_value());
  EXPECT_EQ(swept->digits.at(1)[0].extent, 8);
}

/// What a block kept of its rows each box loads again.
TEST(NarrowRows, KeepNothing) {
  RowsChoice keeps = rows_beside_each_other();
  keeps.keeps = true;
  keeps.blocks = keeps.per_sm = 3;
  const auto four = narrow_rows(keeps, 4);
  ASSERT_TRUE(four.has_value());
  EXPECT_EQ(*four, *narrow_rows(rows_beside_each_other(), 4));
}

TEST(NarrowRows, StayWhereBlocksShareWhatTheyLoad) {
  EXPECT_FALSE(narrow_rows(rows_beside_each_other(), 8).has_value());
  RowsChoice together = rows_beside_each_other();
  together.keeps = true;
  together.together = 2;
  EXPECT_FALSE(narrow_rows(together, 4).has_value());
  RowsChoice parts = rows_beside_each_other();
  parts.parts = 2;
  EXPECT_FALSE(narrow_rows(parts, 4).has_value());
}

}  // namespace
}  // namespace weft
