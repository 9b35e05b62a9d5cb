#include "schedule/writer/moment_sums.h"

#include <gtest/gtest.h>

#include "group/join_moments.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

/// The pairs found where the mean is `mean` of the sum s, the deviation `from` the mean, and the
/// square `square` of the deviation d.
JoinedGroup joined(const std::string& mean, const std::string& from, const std::string& square,
                   const std::string& type = "f32") {
  std::string text = R"((x: T[4,6], z: T[4,6]) {
  s = reduce x, axes={1}, combiner=sum : T[4]
  c = constant 6 : T[]
  n = broadcast c, dims={} : T[4]
  k = constant 0.16666666666666666 : T[]
  part = broadcast k, dims={} : T[4]
  two = constant 2 : T[]
  twos = broadcast two, dims={} : T[4,6]
  mu = )" + mean + R"( : T[4]
  b = broadcast mu, dims={0} : T[4,6]
  d = sub )" + from +
                     R"(, b : T[4,6]
  q = )" + square + R"( : T[4,6]
  v = reduce q, axes={1}, combiner=sum : T[4]
} -> (s, v))";
  for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, type);
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  const auto axes = derive_group_axes(program, group);
  EXPECT_TRUE(axes.ok()) << axes.error().message;
  return join_moments(program, group, *axes);
}

TEST(MomentSums, JoinASumAndTheSquaresAboutItsMean) {
  for (const char* mean : {"div s, n", "mul s, part", "mul part, s"}) {
    for (const char* square : {"mul d, d", "pow d, twos"}) {
      const JoinedGroup group = joined(mean, "x", square);
      ASSERT_EQ(group.moments.size(), 1U) << mean << ", " << square;
      // One level, at which nothing reads the deviations.
      EXPECT_EQ(group.axes.level[static_cast<size_t>(group.moments[0].second)], 0);
      EXPECT_EQ(group.with_sum(group.moments[0].sum)->second, group.moments[0].second);
      EXPECT_FALSE(group.unused.empty());
    }
  }
}

TEST(MomentSums, LeaveWhatIsNoSecondMoment) {
  EXPECT_TRUE(joined("mul s, n", "x", "mul d, d").moments.empty()) << "no mean";
  EXPECT_TRUE(joined("div s, n", "z", "mul d, d").moments.empty()) << "of something else";
  EXPECT_TRUE(joined("div s, n", "x", "mul d, x").moments.empty()) << "no square";
  EXPECT_TRUE(joined("div s, n", "x", "mul d, d", "f16").moments.empty()) << "rounded between";
}

}  // namespace
}  // namespace weft
