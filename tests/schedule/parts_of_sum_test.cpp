#include <gtest/gtest.h>

#include <limits>

#include "schedule/schedule.h"
#include "tests/schedule/expressed.h"

namespace weft::schedule_test {
namespace {

/// Parts of a sum, as the text of a plan may ask for them, of 37 rows and 320 steps.
class PartsOfSum : public testing::Test {
 protected:
  bool builds(const PanelChoice& choice) const {
    Composition composition = whole_->composition;
    composition.choice = choice;
    const auto built = build_composition(program_, group_, composition, target_, "k");
    if (!built.ok()) EXPECT_EQ(built.error().code, ErrorCode::kInvalidInput);
    return built.ok();
  }
  PanelChoice choice() const { return std::get<PanelChoice>(whole_->composition.choice); }

  const TensorProgram program_ = expressed(R"((a: f32[37,320], b: f32[320,40]) {
  y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[37,40]
} -> (y))");
  const Group group_ = whole_group(program_);
  const Target target_ = *find_target("x86-64-v4");
  const Result<ScheduledKernel> whole_ = schedule_group(program_, group_, target_, "k");
};

TEST_F(PartsOfSum, AreBuiltOfWholeTilesOfRows) {
  PanelChoice c = choice();
  c.rows_outermost = false;
  c.part = 100;
  c.part_rows = 2 * c.rows;
  EXPECT_TRUE(builds(c));
  c.part_rows = 1 << 16;
  EXPECT_TRUE(builds(c));
  c.part_rows = c.rows + 1;
  EXPECT_FALSE(builds(c));
}

TEST_F(PartsOfSum, AreRefusedWhereTheyAreNoParts) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  PanelChoice good = choice();
  good.rows_outermost = false;
  good.part = 100;
  good.part_rows = good.rows;
  ASSERT_TRUE(builds(good));
  for (const int64_t part : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{320}, kHuge}) {
    PanelChoice c = good;
    c.part = part;
    EXPECT_FALSE(builds(c)) << part;
  }
  for (const int64_t rows : {int64_t{0}, -good.rows, kHuge / good.rows * good.rows}) {
    PanelChoice c = good;
    c.part_rows = rows;
    EXPECT_FALSE(builds(c)) << rows;
  }
  PanelChoice axes = good;
  axes.part_axes = 1;
  EXPECT_FALSE(builds(axes));
}

TEST_F(PartsOfSum, AreMadeInChunksOfRows) {
  PanelChoice c = choice();
  c.rows_outermost = true;
  c.part_rows = 2 * c.rows;
  EXPECT_TRUE(builds(c));
  c.part = 100;
  EXPECT_TRUE(builds(c));
  for (const int64_t rows : {c.rows + 1, -c.rows, int64_t{1} << 16}) {
    PanelChoice wrong = c;
    wrong.part_rows = rows;
    EXPECT_FALSE(builds(wrong)) << rows;
    wrong.part = 0;
    EXPECT_FALSE(builds(wrong)) << rows;
  }
  c.part = 0;
  c.part_axes = 1;
  EXPECT_FALSE(builds(c));
}

}  // namespace
}  // namespace weft::schedule_test
