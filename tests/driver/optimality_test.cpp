// What `explain --optimal` says: the plan beside the integer program's, with bound and gap.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "driver/compiler.h"
#include "driver/report/compare_with_plan.h"

namespace weft {
namespace {

using ::testing::MatchesRegex;

TEST(Optimality, TellsTheBoundAndTheGap) {
  const std::string path = ::testing::TempDir() + "optimality.graph";
  std::ofstream(path) << R"((x: f32[64,96]) {
  s = reduce x, axes={1}, combiner=sum : f32[64]
  b = broadcast s, dims={0} : f32[64,96]
  y = sub x, b : f32[64,96]
  m = reduce y, axes={0}, combiner=max : f32[96]
} -> (m))";
  CompileOptions options;
  options.device = *find_target("a100-40gb");
  options.planner = "none";
  options.stop_after = "plan";
  const auto c = compile_model(path, options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  const auto text = optimality_text(**c);
  if (!text.ok() && text.error().code == ErrorCode::kMissingDevice) GTEST_SKIP() << "no solver";
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_THAT(*text, MatchesRegex("none +3 kernels, predicted [0-9.]+ us\n"
                                  "ilp +[12] kernels, predicted [0-9.]+ us; its patterns gain "
                                  "[1-9][0-9.]* us by their own count, no others more than "
                                  "[1-9][0-9.]* us: gap 0.00%\n"));
}

}  // namespace
}  // namespace weft
