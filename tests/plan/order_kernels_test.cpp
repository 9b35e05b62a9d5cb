#include "plan/order_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// A chain of four, by the positions of its expressions in each kernel.
Result<std::vector<FusionPlan::Step>> order(const std::vector<std::vector<ExprId>>& kernels) {
  const TensorProgram p = expressed(R"((x: f32[8]) {
  a = exp x : f32[8]
  b = neg a : f32[8]
  c = exp b : f32[8]
  d = neg c : f32[8]
} -> (d))");
  std::vector<Group> groups;
  for (const std::vector<ExprId>& exprs : kernels) groups.push_back({exprs, {}});
  return order_kernels(p, groups);
}

TEST(OrderKernels, PutsProducersFirst) {
  const auto steps = order({{3}, {1, 2}, {0}});
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  std::vector<int32_t> kernels;
  for (const FusionPlan::Step& step : *steps) kernels.push_back(step.index);
  EXPECT_EQ(kernels, (std::vector<int32_t>{2, 1, 0}));
}

TEST(OrderKernels, SaysWhichKernelsWaitForEachOther) {
  const auto steps = order({{0, 2}, {1, 3}});
  ASSERT_FALSE(steps.ok());
  EXPECT_EQ(steps.error().code, ErrorCode::kInternal);
  EXPECT_THAT(steps.error().message, HasSubstr("cyclic: the kernels of c, d wait for each other"));
}

}  // namespace
}  // namespace weft
