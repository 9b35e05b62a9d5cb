#include "plan/planners/planners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(Planners, EachIsFoundByItsNameAndSaysWhatItDoes) {
  for (const Planner& planner : planners()) {
    const auto found = find_planner(planner.name);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(*found, &planner);
    EXPECT_NE(planner.partition, nullptr);
    EXPECT_FALSE(planner.help.empty());
    EXPECT_THAT(planner_names(), HasSubstr(std::string(planner.name)));
  }
}

TEST(Planners, ThoseToComeAreUnsupportedAndOthersMistakes) {
  EXPECT_EQ(find_planner("span").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(find_planner("fastest").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(find_planner("").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace weft
