#include "plan/planners/planners.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/tangled_graph.h"
#include "tests/graph_texts.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(Planners, EachIsFoundByItsNameAndSaysWhatItDoes) {
  for (const Planner& planner : planners()) {
    const auto found = find_planner(planner.name);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(*found, &planner);
    EXPECT_EQ(planner.partition == nullptr, !planner.alternatives.empty());
    for (const auto& alternatives : {planner.alternatives, planner.alternatives_of_gpus}) {
      for (const Alternative& a : alternatives) {
        const auto other = find_planner(a.planner);
        ASSERT_TRUE(other.ok()) << other.error().message;
        EXPECT_NE((*other)->partition, nullptr);
      }
    }
    EXPECT_FALSE(planner.help.empty());
    EXPECT_THAT(planner_names(), HasSubstr(std::string(planner.name)));
  }
}

double predicted_us(const FusionPlan& plan) {
  double us = 0;
  for (const PlannedKernel& kernel : plan.kernels) us += kernel.schedule.estimate.microseconds;
  return us;
}

TEST(Planners, BestIsNeverPredictedToBeSlowerThanAnother) {
  const std::string graphs[] = {softmax(64, 100), softmax(3, 50000), apart(96, 64),
                                product(128, 768, 768, "f16",
                                        "  m = reduce p, axes={1}, combiner=max : f16[128]\n"
                                        "  o = broadcast m, dims={0} : f16[128,768]\n"
                                        "  y = sub p, o : f16[128,768]\n")};
  for (const char* target : {"a100-40gb", "x86-64-v4"}) {
    for (const std::string& graph : graphs) {
      const TensorProgram p = expressed(graph);
      const double best = predicted_us(plan_of(p, *find_target(target), "best"));
      for (const Planner& planner : planners()) {
        // Which also takes launches that are hardly quicker, and best leaves.
        if (planner.joins_launches) continue;
        const FusionPlan plan = plan_of(p, *find_target(target), std::string(planner.name));
        EXPECT_LE(best, predicted_us(plan) * (1 + 1e-9)) << target << " " << print(plan, p);
      }
    }
  }
}

/// Two recurrences of gated steps, of which the last step of one and the first of the other are
/// read together.
std::string two_recurrences(int steps) {
  std::string text = "(x: f32[128,256], w: f32[256,512]) {\n", ends;
  for (const char chain : {'f', 'b'}) {
    std::string state = "x";
    for (int t = 0; t < steps; ++t) {
      text += fmt::format(
          R"(  p{0} = dot_general {1}, w, lhs_contract={{1}}, rhs_contract={{0}} : f32[128,512]
  i{0} = slice p{0}, start={{0,0}}, step={{1,1}} : f32[128,256]
  j{0} = slice p{0}, start={{0,256}}, step={{1,1}} : f32[128,256]
  a{0} = tanh i{0} : f32[128,256]
  g{0} = sigmoid j{0} : f32[128,256]
  h{0} = mul a{0}, g{0} : f32[128,256]
)",
          chain + std::to_string(t), state);
      state = fmt::format("h{}{}", chain, t);
    }
    ends += state + (chain == 'f' ? ", " : "");
  }
  return text + fmt::format("  y = concat hf{}, hb0, axis=1 : f32[128,512]\n}} -> (y, {})",
                            steps - 1, ends);
}

TEST(Planners, AutoIsNoSlowerWithBlocksThanWithout) {
  const TensorProgram p = expressed(two_recurrences(6));
  const Target a100 = *find_target("a100-40gb");
  EXPECT_LE(predicted_us(plan_of(p, a100, "auto")), predicted_us(plan_of(p, a100, "greedy")));
}

/// Where patterns are better than a walk along edges, a GPU's plan has them.
TEST(Planners, AutoIsNoSlowerThanPatternsOnAGpu) {
  int better = 0;
  const Target a100 = *find_target("a100-40gb");
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const TensorProgram p = expressed(print(tangled_graph(seed, small_tangled_graphs())));
    const double by_patterns = predicted_us(plan_of(p, a100, "dp"));
    better += by_patterns < predicted_us(plan_of(p, a100, "greedy")) ? 1 : 0;
    EXPECT_LE(predicted_us(plan_of(p, a100, "auto")), by_patterns * (1 + 1e-9)) << "seed " << seed;
  }
  EXPECT_GT(better, 0);
}

/// Two products that one launch could hold, one with the tanh behind it.
TEST(Planners, LeaveProductsAloneThatCountAsCalls) {
  const TensorProgram p = expressed(R"((x: f32[16,32], w: f32[32,32], u: f32[32,32]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[16,32]
  t = tanh a : f32[16,32]
  b = dot_general t, u, lhs_contract={1}, rhs_contract={0} : f32[16,32]
  c = dot_general x, u, lhs_contract={1}, rhs_contract={0} : f32[16,32]
} -> (b, c))");
  for (const char* target : {"a100-40gb", "x86-64-v4"}) {
    for (const Planner& planner : planners()) {
      const FusionPlan plan = plan_of(p, *find_target(target), std::string(planner.name), "",
                                      /*compute_as_calls=*/true);
      ASSERT_EQ(plan.kernels.size(), 4u) << planner.name << " " << print(plan, p);
      for (const PlannedKernel& kernel : plan.kernels)
        EXPECT_EQ(kernel.is_call, kernel.is_compute) << print(plan, p);
    }
  }
}

/// Random graphs, read and planned twice: nothing may depend on addresses or on what was planned
/// before.
TEST(Planners, MakeTheSamePlanTwice) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string text = print(tangled_graph(seed, small_tangled_graphs()));
    const TensorProgram once = expressed(text), again = expressed(text);
    const Target target = *find_target(seed % 2 == 0 ? "a100-40gb" : "x86-64-v4");
    for (const Planner& planner : planners()) {
      const std::string name(planner.name);
      EXPECT_EQ(print(plan_of(once, target, name), once),
                print(plan_of(again, target, name), again))
          << "seed " << seed << " for " << target.name;
    }
  }
}

/// What another program's planning has learned changes no plan, and a program that was planned is
/// asked nothing new.
TEST(Planners, MakeTheSamePlanWithTheMemoryOfOthers) {
  for (const char* name : {"a100-40gb", "x86-64-v4"}) {
    const Target target = *find_target(name);
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const TensorProgram first = expressed(print(tangled_graph(seed, small_tangled_graphs())));
      const TensorProgram then = expressed(print(tangled_graph(seed + 1, small_tangled_graphs())));
      for (const std::string planner : {"greedy", "auto", "best"}) {
        PlanningMemory memory(target, nullptr);
        PlanOptions options;
        options.planner = planner;
        options.memory = &memory;
        ASSERT_TRUE(plan_fusion(first, target, options).ok());
        const Result<FusionPlan> plan = plan_fusion(then, target, options);
        ASSERT_TRUE(plan.ok());
        EXPECT_EQ(print(*plan, then), print(plan_of(then, target, planner), then))
            << planner << ", seed " << seed << " for " << name;
        const size_t asked = memory.outside.groups.size();
        EXPECT_GT(asked, 0u);
        ASSERT_TRUE(plan_fusion(then, target, options).ok());
        EXPECT_EQ(memory.outside.groups.size(), asked);
      }
    }
  }
}

TEST(Planners, StopWhenTheyAreCancelled) {
  const TensorProgram p = expressed(softmax(64, 100));
  const std::atomic<bool> cancelled{true};
  for (const char* target : {"a100-40gb", "x86-64-v4"}) {
    for (const Planner& planner : planners()) {
      PlanOptions options;
      options.planner = planner.name;
      options.cancel = &cancelled;
      EXPECT_THROW((void)plan_fusion(p, *find_target(target), options), Cancelled) << planner.name;
    }
  }
}

TEST(Planners, OthersThanThoseThatThereAreAreMistakes) {
  EXPECT_EQ(find_planner("fastest").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(find_planner("").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace weft
