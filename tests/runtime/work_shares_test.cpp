#include "runtime/work_shares.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(WorkShares, OwnersTakeFromTheBeginOthersFromTheEnd) {
  WorkShares shares(2);
  EXPECT_EQ(shares.take(0, 1, 3, true), 0);
  EXPECT_EQ(shares.take(0, 1, 3, false), 2);
  EXPECT_EQ(shares.take(0, 1, 3, true), 1);
  EXPECT_EQ(shares.take(0, 1, 3, true), -1);
  EXPECT_EQ(shares.take(0, 1, 3, false), -1);
}

/// A thread that the system keeps from its core has begun nothing: others make its share.
TEST(WorkShares, OthersBeginAShareWhoseOwnerIsNotThere) {
  WorkShares shares(2);
  EXPECT_EQ(shares.take(1, 1, 2, false), 1);
  EXPECT_EQ(shares.take(1, 1, 2, false), 0);
  EXPECT_EQ(shares.take(1, 1, 2, true), -1);
}

/// An owner that comes late finds its round over; a round whose pieces are not all taken is not
/// passed by one that is ahead.
TEST(WorkShares, RoundsFollowEachOther) {
  WorkShares shares(1);
  EXPECT_EQ(shares.take(0, 1, 2, true), 0);
  EXPECT_EQ(shares.take(0, 2, 2, false), -1);
  EXPECT_EQ(shares.take(0, 1, 2, true), 1);
  EXPECT_EQ(shares.take(0, 3, 2, false), -1);
  EXPECT_EQ(shares.take(0, 2, 2, false), 1);
  EXPECT_EQ(shares.take(0, 1, 2, true), -1);
  EXPECT_EQ(shares.take(0, 2, 2, true), 0);
  shares.reset();
  EXPECT_EQ(shares.take(0, 1, 1, true), 0);
}

TEST(WorkShares, HoldsAsManyPiecesAsItSays) {
  WorkShares shares(1);
  EXPECT_EQ(shares.take(0, 1, WorkShares::kMostPieces, false), WorkShares::kMostPieces - 1);
  EXPECT_EQ(shares.take(0, 1, WorkShares::kMostPieces, true), 0);
}

}  // namespace
}  // namespace weft
