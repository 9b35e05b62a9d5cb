#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph_texts.h"
#include "tests/plan/planned.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSoftmaxPlan = R"(plan auto {
  kernel k0_y memory rows by leaf(sweep grid [0] inner [1] vec_axis 1 row_axis 0 rows 4 vectors 2 lanes 16 kept [false, false, true, false, false]): m, d, e, s, y -> y
  edge 0 -> 1 m: fused "saves 0.9 us and 26112 bytes of memory traffic"
  edge 1 -> 2 d: fused "saves 1.0 us and 51200 bytes of memory traffic"
  edge 2 -> 3 e: fused "saves 0.8 us and 25600 bytes of memory traffic"
  edge 3 -> 4 s: fused "saves 1.0 us and 51712 bytes of memory traffic"
  edge 2 -> 4 e: fused "already in one kernel"
}
)";

TEST(PlanText, PrintsAndParses) {
  const TensorProgram p = expressed(softmax(64, 100));
  const FusionPlan plan = plan_of(p, two_cores());
  EXPECT_EQ(print(plan, p), kSoftmaxPlan);
  const auto parsed = parse_plan(kSoftmaxPlan, p, two_cores());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(print(*parsed, p), kSoftmaxPlan);
  EXPECT_EQ(print(parsed->kernels[0].schedule.program, parsed->kernels[0].schedule.scopes),
            print(plan.kernels[0].schedule.program, plan.kernels[0].schedule.scopes));
}

TEST(PlanText, TakesAPartitionMadeByHand) {
  const TensorProgram p = expressed(softmax(64, 100));
  const auto parsed = parse_plan(R"(plan hand {
    kernel top memory rows: m, d, e -> e
    kernel rest memory rows: s, y -> y
  })",
                                 p, two_cores());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->kernels.size(), 2U);
}

TEST(PlanText, SaysWhereItIsWrong) {
  const TensorProgram p = expressed(softmax(64, 100));
  const auto error = [&](std::string_view text) {
    const auto parsed = parse_plan(text, p, two_cores());
    EXPECT_FALSE(parsed.ok()) << text;
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  EXPECT_NE(error("plan auto { kernel a memory rows: m, q -> m }").find("no tensor 'q'"),
            std::string::npos);
  EXPECT_NE(error("plan auto { kernel a memory rows: d, m -> m }").find("program order"),
            std::string::npos);
  EXPECT_NE(error("plan auto { kernel a memory rows: m, d -> y }").find("does not make"),
            std::string::npos);
  EXPECT_NE(error("plan auto { kernel a memory columns: m -> m }").find("template 'rows'"),
            std::string::npos);
  // The maximum is computed but never reaches the second kernel.
  EXPECT_NE(error("plan auto { kernel a memory rows: m kernel b memory rows: d, e, s, y -> y }")
                .find("m is read before it is stored"),
            std::string::npos);
  EXPECT_NE(error("plan auto { kernel a memory rows: m -> m }").find("is in no kernel"),
            std::string::npos);
  EXPECT_NE(error("plan auto { edge 0 -> 9 m: fused \"\" }").find("no such step"),
            std::string::npos);
  for (const char* factor : {"nan", "-1", "inf", "1e7", "x", ""}) {
    EXPECT_NE(error("plan auto recompute " + std::string(factor) + " { }")
                  .find("recompute is a number from 0 to"),
              std::string::npos);
  }
}

TEST(PlanText, PrintsAndParsesCopies) {
  const TensorProgram p = expressed(softmax(64, 100));
  const FusionPlan plan = plan_of(p, two_cores(), "xla");
  const std::string text = print(plan, p);
  EXPECT_THAT(text, HasSubstr(": d, e, s -> s\n"));
  EXPECT_THAT(text, HasSubstr(": d, e, y copies d, e -> y\n"));
  const auto parsed = parse_plan(text, p, two_cores());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(print(*parsed, p), text);
  const auto wrong =
      parse_plan("plan xla { kernel a memory rows: m copies d -> m }", p, two_cores());
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("does not make what it is said to copy"));
}

TEST(PlanText, PrintsAndParsesMembersOfALaunch) {
  const TensorProgram p = expressed(apart(96, 64));
  const Target target = *find_target("h100-sxm");
  const FusionPlan plan = plan_of(p, target);
  EXPECT_THAT(print(plan, p), HasSubstr(": y | z -> y, z\n"));
  EXPECT_THAT(print(plan.kernels.at(0).schedule.program), HasSubstr("share 6 {"));
  const auto again = parse_plan(print(plan, p), p, target);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(print(*again, p), print(plan, p));
  EXPECT_EQ(print(again->kernels[0].schedule.program), print(plan.kernels[0].schedule.program));
  EXPECT_EQ(print(plan_of(p, target), p), print(plan, p));
}

TEST(PlanText, RefusesAMemberThatReadsAnother) {
  const TensorProgram p = expressed(R"(
(x: f32[6,90]) {
  a = reduce x, axes={1}, combiner=sum : f32[6]
  b = reshape a : f32[2,3]
  c = reduce b, axes={0}, combiner=max : f32[3]
} -> (a, c))");
  const Target target = *find_target("h100-sxm");
  const FusionPlan apart = plan_of(p, target, "none");
  const auto text = [&](const std::string& kind, const std::string& name) {
    std::string leaves, templates;
    for (const PlannedKernel& kernel : apart.kernels) {
      leaves += (leaves.empty() ? "" : "; ") + print(kernel.schedule.composition);
      templates += (templates.empty() ? "" : " | ") + kernel.schedule.schedule_template;
    }
    return "plan auto {\n  kernel k0 memory \"" + name + ": " + templates + "\" by " + kind +
           " { " + leaves + " } because \"by hand\": a | c -> a, c\n}\n";
  };
  const auto plan = parse_plan(text("pack", "side by side"), p, target);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("reads a, which another one makes"));
  // One after another it may.
  const auto joined = parse_plan(text("grid", "one after another"), p, target);
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(joined->kernels.size(), 1U);
  // On a CPU kernels share no launch.
  const auto on_cpu = parse_plan(text("grid", "one after another"), p, *find_target("x86-64-v4"));
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.error().message;
  EXPECT_EQ(on_cpu->kernels.size(), 2U);
}

}  // namespace
}  // namespace weft
