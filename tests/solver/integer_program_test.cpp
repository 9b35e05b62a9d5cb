#include "solver/integer_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::ElementsAre;

TEST(IntegerProgram, ChoosesWhatGainsMost) {
  // The greedy choice is the middle one; the outer two gain more together.
  const IntegerProgram path = {{4, 5, 4}, {{{0, 1}}, {{1, 2}}}};
  const auto solution = solve(path, 1000);
  ASSERT_TRUE(solution.ok()) << solution.error().message;
  EXPECT_THAT(solution->chosen, ElementsAre(true, false, true));
  EXPECT_DOUBLE_EQ(solution->gain, 8);
  EXPECT_DOUBLE_EQ(solution->bound, 8);
  EXPECT_TRUE(solution->optimal);
}

TEST(IntegerProgram, HoldsRowsOfMoreThanOne) {
  const auto solution = solve({{3, 2, 1}, {{{0, 1, 2}, 2}}}, 1000);
  ASSERT_TRUE(solution.ok()) << solution.error().message;
  EXPECT_THAT(solution->chosen, ElementsAre(true, true, false));
}

/// A clique given by its pairs alone, so that the relaxation takes half of each.
TEST(IntegerProgram, SolvesWhatTheRelaxationDoesNot) {
  IntegerProgram clique;
  clique.gains = {5, 6, 7, 6, 5};
  for (int a = 0; a < 5; ++a) {
    for (int b = a + 1; b < 5; ++b) clique.rows.push_back({{a, b}, 1});
  }
  const auto solution = solve(clique, 1000);
  ASSERT_TRUE(solution.ok()) << solution.error().message;
  EXPECT_THAT(solution->chosen, ElementsAre(false, false, true, false, false));
}

/// Paths of three columns, every other one reversed in gain, columns of different paths in turns,
/// and one column that stands alone. Each path is chosen as if it were alone.
TEST(IntegerProgram, PartsAreChosenApart) {
  constexpr int kPaths = 3000;
  IntegerProgram program;
  program.gains.resize(3 * kPaths + 1, 0);
  double expected = 2;
  program.gains.back() = 2;
  for (int p = 0; p < kPaths; ++p) {
    const int a = p, b = p + kPaths, c = p + 2 * kPaths;
    program.gains[static_cast<size_t>(a)] = program.gains[static_cast<size_t>(c)] = 4;
    program.gains[static_cast<size_t>(b)] = p % 2 == 0 ? 5 : 9;
    program.rows.push_back({{a, b}, 1});
    program.rows.push_back({{c, b}, 1});
    expected += p % 2 == 0 ? 8 : 9;
  }
  const auto solution = solve(program, 1000);
  ASSERT_TRUE(solution.ok()) << solution.error().message;
  EXPECT_DOUBLE_EQ(solution->gain, expected);
  EXPECT_DOUBLE_EQ(solution->bound, expected);
  EXPECT_TRUE(solution->optimal);
  for (int p = 0; p < kPaths; ++p) {
    const bool middle = p % 2 != 0;
    EXPECT_EQ(solution->chosen[static_cast<size_t>(p)], !middle);
    EXPECT_EQ(solution->chosen[static_cast<size_t>(p + kPaths)], middle);
    EXPECT_EQ(solution->chosen[static_cast<size_t>(p + 2 * kPaths)], !middle);
  }
  EXPECT_TRUE(solution->chosen.back());
}

TEST(IntegerProgram, NothingToChooseNeedsNoSolver) {
  const auto solution = solve({}, 1);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->gain, 0);
}

/// Nothing of the solver's own talk stands in what a command prints.
TEST(IntegerProgram, IsSilent) {
  ::testing::internal::CaptureStdout();
  ASSERT_TRUE(solve({{4, 5, 4}, {{{0, 1}}, {{1, 2}}}}, 1000).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace weft
