#include <gtest/gtest.h>

#include "plan/fusion_plan.h"
#include "rewrite/fold_constants.h"
#include "tests/schedule/expressed.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

Target two_cores() {
  Target t;
  t.name = "test";
  t.threads = 2;
  t.vector_bytes = 64;
  t.vector_registers = 32;
  t.bandwidth = {{1 << 15, 200}, {1 << 25, 30}};
  return t;
}

FusionPlan plan_of(const TensorProgram& program, const std::string& planner) {
  PlanOptions options;
  options.planner = planner;
  auto plan = plan_fusion(program, two_cores(), options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const Status status = verify_plan(program, *plan);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return std::move(*plan);
}

constexpr const char* kSoftmax = R"(
(x: f32[64,100]) {
  m = reduce x, axes={1}, combiner=max : f32[64]
  mb = broadcast m, dims={0} : f32[64,100]
  d = sub x, mb : f32[64,100]
  e = exp d : f32[64,100]
  s = reduce e, axes={1}, combiner=sum : f32[64]
  sb = broadcast s, dims={0} : f32[64,100]
  y = div e, sb : f32[64,100]
} -> (y))";

TEST(Partition, NoneMakesOneKernelAnExpression) {
  const TensorProgram p = expressed(kSoftmax);
  EXPECT_EQ(plan_of(p, "none").kernels.size(), p.exprs.size());
}

TEST(Partition, XlaCutsBehindEveryReduction) {
  const TensorProgram p = expressed(kSoftmax);
  const FusionPlan plan = plan_of(p, "xla");
  EXPECT_EQ(plan.kernels.size(), 3U) << print(plan, p);
  bool cut = false;
  for (const EdgeDecision& e : plan.edges) {
    cut |= e.verdict == EdgeDecision::Verdict::kIllegal &&
           e.reason.find("shared by more than its thread") != std::string::npos;
  }
  EXPECT_TRUE(cut) << print(plan, p);
}

TEST(VerifyPlan, LooksAtTheTilePrograms) {
  const TensorProgram p = expressed(kSoftmax);
  FusionPlan plan = plan_of(p, "auto");
  TileProgram& tiles = plan.kernels.at(0).schedule.program;
  tiles.body = cloned(tiles.body);
  std::vector<TileNode>& grid = tiles.body.back().loop->body;
  grid.pop_back();  // the sweep that stores y
  const Status status = verify_plan(p, plan);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("6400 of 6400 elements of y are not written"),
            std::string::npos)
      << status.error().message;
}

TEST(Partition, AutoStitchesAcrossReductions) {
  const TensorProgram p = expressed(kSoftmax);
  const FusionPlan plan = plan_of(p, "auto");
  ASSERT_EQ(plan.kernels.size(), 1U) << print(plan, p);
  EXPECT_EQ(plan.kernels[0].schedule.schedule_template, "rows");
  for (const EdgeDecision& e : plan.edges)
    EXPECT_EQ(e.verdict, EdgeDecision::Verdict::kFused) << e.reason;
}

TEST(Partition, AContractionTakesItsEpilogueAndLeavesTheNextRowReduction) {
  const TensorProgram p = expressed(R"(
(x: f32[64,32], w: f32[32,48], b: f32[48]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[64,48]
  bb = broadcast b, dims={1} : f32[64,48]
  q = add p, bb : f32[64,48]
  r = tanh q : f32[64,48]
  s = reduce r, axes={1}, combiner=sum : f32[64]
} -> (r, s))");
  const FusionPlan plan = plan_of(p, "auto");
  ASSERT_EQ(plan.kernels.size(), 2U) << print(plan, p);
  EXPECT_EQ(plan.kernels[0].group.exprs.size(), 3U);
  EXPECT_TRUE(plan.kernels[0].is_compute);
  EXPECT_FALSE(plan.kernels[1].is_compute);
}

TEST(Partition, TwoContractionsNeverShareAKernel) {
  const TensorProgram p = expressed(R"(
(x: f32[8,16], w: f32[16,16], v: f32[16,16]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,16]
  c = dot_general a, v, lhs_contract={1}, rhs_contract={0} : f32[8,16]
} -> (c))");
  const FusionPlan plan = plan_of(p, "auto");
  EXPECT_EQ(plan.kernels.size(), 2U);
  ASSERT_EQ(plan.edges.size(), 1U);
  EXPECT_EQ(plan.edges[0].verdict, EdgeDecision::Verdict::kIllegal);
  EXPECT_FALSE(plan.edges[0].reason.empty());
}

TEST(Partition, AMatrixThatLiesAlongTheReductionIsStreamedByRows) {
  const auto template_of = [](const char* text) {
    const TensorProgram p = expressed(text);
    const FusionPlan plan = plan_of(p, "auto");
    EXPECT_EQ(plan.kernels.size(), 1U) << print(plan, p);
    EXPECT_TRUE(plan.kernels[0].is_compute);
    return plan.kernels[0].schedule.schedule_template;
  };
  // One query against all keys, with what follows.
  EXPECT_EQ(template_of(R"(
(q: f32[12,64], k: f32[12,512,64], s: f32[]) {
  p = dot_general q, k, lhs_contract={1}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[12,512]
  sb = broadcast s, dims={} : f32[12,512]
  y = mul p, sb : f32[12,512]
} -> (y))"),
            "rows");
  // The matrix lies along the output.
  EXPECT_EQ(template_of(R"(
(q: f32[12,64], v: f32[12,64,512]) {
  y = dot_general q, v, lhs_contract={1}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[12,512]
} -> (y))")
                .substr(0, 8),
            "contract");
  // Several queries read the keys again.
  EXPECT_EQ(template_of(R"(
(q: f32[12,4,64], k: f32[12,512,64]) {
  y = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[12,4,512]
} -> (y))")
                .substr(0, 8),
            "contract");
}

TEST(Partition, NeverMakesACycle) {
  // b and d would fit one kernel, but the product between them needs a's kernel finished and d
  // started after it.
  const TensorProgram p = expressed(R"(
(x: f32[16,16], w: f32[16,16]) {
  a = exp x : f32[16,16]
  c = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[16,16]
  d = add a, c : f32[16,16]
  e = mul d, a : f32[16,16]
} -> (e))");
  const FusionPlan plan = plan_of(p, "auto");
  EXPECT_EQ(plan.kernels.size(), 2U) << print(plan, p);
}

TEST(Partition, RefusesUnknownAndLaterPlannersByName) {
  const TensorProgram p = expressed(kSoftmax);
  PlanOptions options;
  options.planner = "best";
  EXPECT_EQ(plan_fusion(p, two_cores(), options).error().code, ErrorCode::kInvalidInput);
  options.planner = "ilp";
  EXPECT_EQ(plan_fusion(p, two_cores(), options).error().code, ErrorCode::kUnsupported);
}

constexpr const char* kSoftmaxPlan = R"(plan auto {
  kernel k0_y memory rows: m, d, e, s, y -> y
  edge 0 -> 1 m: fused "saves 0.9 us and 26112 bytes of memory traffic"
  edge 1 -> 2 d: fused "saves 1.0 us and 51200 bytes of memory traffic"
  edge 2 -> 3 e: fused "saves 0.8 us and 25600 bytes of memory traffic"
  edge 3 -> 4 s: fused "saves 1.0 us and 51712 bytes of memory traffic"
  edge 2 -> 4 e: fused "already in one kernel"
}
)";

TEST(PlanText, PrintsAndParses) {
  const TensorProgram p = expressed(kSoftmax);
  const FusionPlan plan = plan_of(p, "auto");
  EXPECT_EQ(print(plan, p), kSoftmaxPlan);
  const auto parsed = parse_plan(kSoftmaxPlan, p, two_cores());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(print(*parsed, p), kSoftmaxPlan);
  EXPECT_EQ(print(parsed->kernels[0].schedule.program, parsed->kernels[0].schedule.scopes),
            print(plan.kernels[0].schedule.program, plan.kernels[0].schedule.scopes));
}

TEST(PlanText, TakesAPartitionMadeByHand) {
  const TensorProgram p = expressed(kSoftmax);
  const auto parsed = parse_plan(R"(plan hand {
    kernel top memory rows: m, d, e -> e
    kernel rest memory rows: s, y -> y
  })",
                                 p, two_cores());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->kernels.size(), 2U);
}

TEST(PlanText, SaysWhereItIsWrong) {
  const TensorProgram p = expressed(kSoftmax);
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
  EXPECT_NE(error("plan auto { kernel a memory rows: m -> m }").find("is in 0 kernels"),
            std::string::npos);
  EXPECT_NE(error("plan auto { edge 0 -> 9 m: fused \"\" }").find("no such step"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
