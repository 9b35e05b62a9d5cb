// A time that was measured takes the place of a prediction when a leaf is chosen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/schedule.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kProduct = R"(
(x: f32[64,96], w: f32[96,128]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[64,128]
} -> (y))";

class MeasuredLeaves : public ::testing::Test {
 protected:
  Composition built(const std::vector<MeasuredComposition>& measured) {
    auto kernel = schedule_group(program_, group_, target_, "k", measured);
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    row_ = kernel->measured;
    return kernel->composition;
  }
  static MeasuredComposition took(const Composition& composition, double us,
                                  const std::string& row) {
    return {composition, us, 3, row};
  }

  TensorProgram program_ = expressed(kProduct);
  Group group_ = whole_group(program_);
  Target target_ = *find_target("x86-64-v4");
  std::string row_;
  Composition first_ = built({});
  std::vector<Composition> others_ = others_to_measure(program_, group_, first_, target_);
};

TEST_F(MeasuredLeaves, OthersDifferAndBuild) {
  ASSERT_GE(others_.size(), 4U);
  for (size_t o = 0; o < others_.size(); ++o) {
    EXPECT_NE(others_[o], first_);
    EXPECT_EQ(std::count(others_.begin(), others_.end(), others_[o]), 1);
    const auto kernel = build_composition(program_, group_, others_[o], target_, "k");
    EXPECT_TRUE(kernel.ok()) << print(others_[o]);
  }
}

TEST_F(MeasuredLeaves, TheQuickestIsBuilt) {
  EXPECT_EQ(built({took(first_, 9, "a"), took(others_[0], 8, "b"), took(others_[1], 7, "c")}),
            others_[1]);
  EXPECT_THAT(row_, HasSubstr("row c: 7.00 us, 3 samples"));
  EXPECT_EQ(built({took(first_, 6, "a"), took(others_[0], 8, "b")}), first_);
  EXPECT_THAT(row_, HasSubstr("row a"));
}

TEST_F(MeasuredLeaves, NoiseDisplacesNothing) {
  EXPECT_EQ(built({took(first_, 9, "a"), took(others_[0], 8.9, "b")}), first_);
  EXPECT_THAT(row_, HasSubstr("row a"));
}

TEST_F(MeasuredLeaves, NothingIsSaidOfAChoiceOfUnknownTime) {
  EXPECT_EQ(built({took(others_[0], 1e-6, "b")}), first_);
  EXPECT_THAT(row_, IsEmpty());
}

TEST_F(MeasuredLeaves, WhatDoesNotBuildIsLeft) {
  Composition wrong = first_;
  std::get<PanelChoice>(wrong.choice).rows = -1;
  EXPECT_EQ(built({took(first_, 9, "a"), took(wrong, 1, "b"), took(others_[0], 8, "c")}),
            others_[0]);
  EXPECT_THAT(row_, HasSubstr("row c"));
}

}  // namespace
}  // namespace weft
