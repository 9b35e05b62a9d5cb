#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph_texts.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A graph, and what a planner makes of it: how the summary of each kernel begins, and for each
/// edge how its summary begins and a part of its reason.
struct PlannerCase {
  const char* name;
  std::string graph;
  const char* target;  ///< "cpu": two_cores
  const char* planner;
  std::vector<std::string> kernels;
  struct Edge {
    std::string decision, reason;
  };
  std::vector<Edge> edges;
  const char* parameters = "";  ///< of the planner
};

void PrintTo(const PlannerCase& row, std::ostream* out) { *out << row.name; }

Target target_of(const PlannerCase& row) {
  return std::string(row.target) == "cpu" ? two_cores() : *find_target(row.target);
}

class PlannerCases : public ::testing::TestWithParam<PlannerCase> {};

TEST_P(PlannerCases, MakeTheseGroupsForTheseReasons) {
  const PlannerCase& row = GetParam();
  const TensorProgram p = expressed(row.graph);
  const FusionPlan plan = plan_of(p, target_of(row), row.planner, row.parameters);
  ASSERT_EQ(plan.kernels.size(), row.kernels.size()) << print(plan, p);
  for (size_t k = 0; k < row.kernels.size(); ++k)
    EXPECT_THAT(summary(plan.kernels[k], p), StartsWith(row.kernels[k]));
  ASSERT_EQ(plan.edges.size(), row.edges.size()) << print(plan, p);
  for (size_t e = 0; e < row.edges.size(); ++e) {
    EXPECT_THAT(summary(plan.edges[e], p), StartsWith(row.edges[e].decision));
    EXPECT_THAT(plan.edges[e].reason, HasSubstr(row.edges[e].reason));
  }
}

/// A product whose rows are read once more for their maxima.
std::string less_its_maxima(int64_t m, int64_t n) {
  return product(m, n, 768, "f16",
                 fmt::format("  m = reduce p, axes={{1}}, combiner=max : f16[{0}]\n"
                             "  o = broadcast m, dims={{0}} : f16[{0},{1}]\n"
                             "  y = sub p, o : f16[{0},{1}]\n",
                             m, n));
}

const PlannerCase kCases[] = {
    {"NoneMakesOneKernelAnExpression",
     softmax(64, 100),
     "cpu",
     "none",
     {"m: memory", "d: memory", "e: memory", "s: memory", "y: memory"},
     {{"m: unprofitable", "fuses nothing"},
      {"d: unprofitable", "fuses nothing"},
      {"e: unprofitable", "fuses nothing"},
      {"s: unprofitable", "fuses nothing"},
      {"e: illegal", "another kernel lies between them (s)"}}},
    {"XlaCutsBehindEveryReduction",
     softmax(64, 100),
     "cpu",
     "xla",
     {"m: memory", "d, e, s: memory", "d, e, y: memory"},
     {{"m: illegal", "shared by more than its thread"},
      {"d: fused", "made by 2 kernels"},
      {"e: fused", "made by 2 kernels"},
      {"s: illegal", "shared by more than its thread"},
      {"e: fused", "made by 2 kernels"}}},
    {"XlaStoresWhatIsExpensiveAndReadAgain",
     R"((x: f32[64], y: f32[64,100]) {
  e = exp x : f32[64]
  n = neg x : f32[64]
  b = broadcast e, dims={0} : f32[64,100]
  c = broadcast n, dims={0} : f32[64,100]
  u = mul b, y : f32[64,100]
  z = mul c, u : f32[64,100]
} -> (z))",
     "h100-sxm",
     "xla",
     {"e: memory", "n, u, z: memory"},
     {{"e: illegal", "expensive, and would be computed 100 times an element"},
      {"u: fused", "saves a round trip"},
      {"n: fused", "saves a round trip"}}},
    {"XlaStoresWhatAProductReadsBesideWhatElseReadsIt",
     R"((x: f32[64,32], y: f32[64,32], w: f32[32,48]) {
  a = add x, y : f32[64,32]
  n = neg x : f32[64,32]
  p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[64,48]
  q = dot_general n, w, lhs_contract={1}, rhs_contract={0} : f32[64,48]
  u = abs a : f32[64,32]
  v = mul n, y : f32[64,32]
} -> (p, q, u, v))",
     "cpu",
     "xla",
     {"a, n, u, v: memory", "p: compute", "q: compute"},
     {{"a: illegal", "a contraction is a library call"},
      {"n: illegal", "a contraction is a library call"},
      {"a: fused", "saves a round trip"},
      {"n: fused", "saves a round trip"}}},
    {"XlaMakesOneKernelOfSiblings",
     R"((x: f32[64,100]) {
  q = mul x, x : f32[64,100]
  s = reduce x, axes={1}, combiner=sum : f32[64]
  t = reduce q, axes={1}, combiner=sum : f32[64]
  m = reduce x, axes={0}, combiner=max : f32[100]
} -> (s, t, m))",
     "cpu",
     "xla",
     {"q, s, t: memory", "m: memory"},
     {{"q: fused", "saves a round trip"}}},
    {"SpanTakesLayersUpToTheInputs",
     softmax(64, 100),
     "cpu",
     "span",
     {"m, d, e, s, y: memory rows"},
     {{"m: fused", "in layers 0 to 4 of a critical path of 5"},
      {"d: fused", "in layers 0 to 4"},
      {"e: fused", "in layers 0 to 4"},
      {"s: fused", "in layers 0 to 4"},
      {"e: fused", "in layers 0 to 4"}}},
    // c, which counts as a library call, is a roof over all that stands beside it.
    {"SpanCrossesNoRoof",
     R"((x: f32[16,16], u: f32[16,16], w: f32[16,16]) {
  a = exp x : f32[16,16]
  c = dot_general u, w, lhs_contract={1}, rhs_contract={0} : f32[16,16]
  b = neg a : f32[16,16]
  y = add b, c : f32[16,16]
} -> (y))",
     "cpu",
     "span",
     {"a, b: memory", "c: compute", "y: memory"},
     {{"a: fused", "in layers 1 to 2 of a critical path of 3"},
      {"b: illegal", "the library call c is a roof between them, in layer 1"},
      {"c: illegal", "c is a library call"}},
     "call-flops=0"},
    {"SpanFusesProductsThatAreNoCalls",
     R"((x: f32[16,16], u: f32[16,16], w: f32[16,16]) {
  a = exp x : f32[16,16]
  c = dot_general u, w, lhs_contract={1}, rhs_contract={0} : f32[16,16]
  b = neg a : f32[16,16]
  y = add b, c : f32[16,16]
} -> (y))",
     "cpu",
     "span",
     {"a, c, b, y: compute"},
     {{"a: fused", "in layers 0 to 2"}, {"b: fused", ""}, {"c: fused", ""}}},
    // a is read by c, which was given up, too.
    {"SpanGivesUpWhatIsReadByWhatItGaveUp",
     R"((x: f32[16,16], w: f32[16,16]) {
  a = exp x : f32[16,16]
  c = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[16,16]
  d = add a, c : f32[16,16]
  e = mul d, a : f32[16,16]
} -> (e))",
     "cpu",
     "span",
     {"a: memory", "c: compute", "d, e: memory"},
     {{"a: illegal", "c is a library call"},
      {"c: illegal", "c is a library call"},
      {"a: illegal", "roof"},
      {"d: fused", "below the library call c in layer 2"},
      {"a: illegal", "roof"}},
     "call-flops=0"},
    {"SpanPacksWhatIsElementwiseInALayer",
     R"((x: f32[64], v: f32[32]) {
  a = exp x : f32[64]
  b = neg x : f32[64]
  c = neg v : f32[32]
} -> (a, b, c))",
     "cpu",
     "span",
     {"a, b: memory elementwise", "c: memory elementwise"},
     {}},
    {"SpanPacksUpToTheFootprint",
     R"((x: f32[64]) {
  a = exp x : f32[64]
  b = neg x : f32[64]
} -> (a, b))",
     "cpu",
     "span",
     {"a: memory", "b: memory"},
     {},
     "footprint=767"},
    {"SpanPacksUpToANumberOfOutputs",
     R"((x: f32[64]) {
  a = exp x : f32[64]
  b = neg x : f32[64]
} -> (a, b))",
     "cpu",
     "span",
     {"a: memory", "b: memory"},
     {},
     "outputs=1"},
    {"DpStitchesAcrossReductions",
     softmax(64, 100),
     "cpu",
     "dp",
     {"m, d, e, s, y: memory rows"},
     {{"m: fused", "one of 5 expressions that save"},
      {"d: fused", "us of launches for"},
      {"e: fused", "one of 5 expressions"},
      {"s: fused", "one of 5 expressions"},
      {"e: fused", "one of 5 expressions"}}},
    {"DpMakesNoKernelOfMoreExpressionsThanItMay",
     softmax(64, 100),
     "cpu",
     "dp",
     {"m: memory", "d, e: memory", "s, y: memory"},
     {{"m: unprofitable", "would hold 3 expressions, more than 2"},
      {"d: fused", ""},
      {"e: unprofitable", "more than 2"},
      {"s: fused", ""},
      {"e: unprofitable", "more than 2"}},
     "expressions=2"},
    // Neither reads the other; on a GPU what is left lies side by side.
    {"DpMergesRemoteKernels",
     R"((x: f32[64], w: f32[8,8]) {
  a = exp x : f32[64]
  b = neg x : f32[64]
  c = dot_general w, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
} -> (a, b, c))",
     "cpu",
     "dp",
     {"a, b: memory elementwise", "c: compute"},
     {}},
    {"IlpStitchesAcrossReductions",
     softmax(64, 100),
     "cpu",
     "ilp",
     {"m, d, e, s, y: memory rows"},
     {{"m: fused", "one of 5 expressions that gain"},
      {"d: fused", ""},
      {"e: fused", ""},
      {"s: fused", ""},
      {"e: fused", ""}}},
    // What is left of the gain is traffic.
    {"IlpPricesLaunchesAsItIsTold",
     softmax(64, 100),
     "cpu",
     "ilp",
     {"m, d, e, s, y: memory rows"},
     {{"m: fused", "that gain 1.2 us"},
      {"d: fused", ""},
      {"e: fused", ""},
      {"s: fused", ""},
      {"e: fused", ""}},
     "launch-us=0"},
    // As the same graph by greedy.
    {"IlpNeverMakesACycle",
     R"((x: f32[16,16], w: f32[16,16]) {
  a = exp x : f32[16,16]
  c = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[16,16]
  d = add a, c : f32[16,16]
  e = mul d, a : f32[16,16]
} -> (e))",
     "cpu",
     "ilp",
     {"a: memory", "c, d, e: compute"},
     {{"a: ", ""}, {"c: fused", ""}, {"a: ", ""}, {"d: fused", ""}, {"a: ", ""}}},
    {"DpPacksLaunches", apart(96, 64), "h100-sxm", "dp", {"y | z: memory side by side"}, {}},
    // As the same graph by auto: what a product's tile loses is in the price.
    {"DpLeavesRowsOfAProductThatDoNotPay",
     less_its_maxima(16384, 768),
     "h100-sxm",
     "dp",
     {"p: compute", "m, y: memory"},
     {{"p: unprofitable", "us longer"}, {"m: fused", ""}, {"p: unprofitable", ""}}},
    {"AutoStitchesAcrossReductions",
     softmax(64, 100),
     "cpu",
     "auto",
     {"m, d, e, s, y: memory rows"},
     {{"m: fused", ""}, {"d: fused", ""}, {"e: fused", ""}, {"s: fused", ""}, {"e: fused", ""}}},
    {"AContractionTakesItsEpilogueAndLeavesTheNextRowReduction",
     R"((x: f32[64,32], w: f32[32,48], b: f32[48]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[64,48]
  bb = broadcast b, dims={1} : f32[64,48]
  q = add p, bb : f32[64,48]
  r = tanh q : f32[64,48]
  s = reduce r, axes={1}, combiner=sum : f32[64]
} -> (r, s))",
     "cpu",
     "greedy",
     {"p, q, r: compute", "s: memory"},
     {{"p: fused", ""}, {"q: fused", ""}, {"r: illegal", ""}}},
    {"TwoContractionsAreNoLeaf",
     R"((x: f32[8,16], w: f32[16,16], v: f32[16,16]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,16]
  c = dot_general a, v, lhs_contract={1}, rhs_contract={0} : f32[8,16]
} -> (c))",
     "cpu",
     "greedy",
     {"a: compute", "c: compute"},
     {{"a: illegal, ", " "}}},
    {"OneQueryAgainstAllKeysIsStreamedByRowsWithWhatFollows",
     R"((q: f32[12,64], k: f32[12,512,64], s: f32[]) {
  p = dot_general q, k, lhs_contract={1}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[12,512]
  sb = broadcast s, dims={} : f32[12,512]
  y = mul p, sb : f32[12,512]
} -> (y))",
     "cpu",
     "auto",
     {"p, y: compute rows"},
     {{"p: fused", ""}}},
    {"AMatrixThatLiesAlongTheOutputIsNotStreamed",
     R"((q: f32[12,64], v: f32[12,64,512]) {
  y = dot_general q, v, lhs_contract={1}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[12,512]
} -> (y))",
     "cpu",
     "auto",
     {"y: compute contract"},
     {}},
    {"KeysThatSeveralQueriesReadAgainAreNotStreamed",
     R"((q: f32[12,4,64], k: f32[12,512,64]) {
  y = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[12,4,512]
} -> (y))",
     "cpu",
     "auto",
     {"y: compute contract"},
     {}},
    // a and d would fit one kernel, but the product between them needs a's kernel finished and d
    // started after it.
    {"NeverMakesACycle",
     R"((x: f32[16,16], w: f32[16,16]) {
  a = exp x : f32[16,16]
  c = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[16,16]
  d = add a, c : f32[16,16]
  e = mul d, a : f32[16,16]
} -> (e))",
     "cpu",
     "greedy",
     {"a: memory", "c, d, e: compute"},
     {{"a: ", ""}, {"c: fused", ""}, {"a: ", ""}, {"d: fused", ""}, {"a: ", ""}}},
    // Rows of 768 leave a tile of many rows no registers: there the operands' way through the
    // second-level cache costs more than the round trip of the result.
    {"RowsOfAProductThatLeaveNoRegistersDoNotPay",
     less_its_maxima(16384, 768),
     "h100-sxm",
     "auto",
     {"p: compute", "m, y: memory"},
     {{"p: unprofitable", ""}, {"m: fused", ""}, {"p: unprofitable", ""}}},
    {"ShortRowsOfAProductPay",
     less_its_maxima(65536, 64),
     "h100-sxm",
     "auto",
     {"p, m, y: compute"},
     {{"p: fused", ""}, {"m: fused", ""}, {"p: fused", "already"}}},
    {"FewRowsOfAProductPay",
     less_its_maxima(128, 768),
     "a100-40gb",
     "auto",
     {"p, m, y: compute"},
     {{"p: fused", ""}, {"m: fused", ""}, {"p: fused", "already"}}},
    {"IndependentKernelsLieSideBySide",
     apart(96, 64),
     "h100-sxm",
     "auto",
     {"y | z: memory side by side: rows in registers | elementwise because independent, 6 + 1 "
      "blocks on 132 SMs, saves"},
     {}},
    {"NonePacksNothing", apart(96, 64), "h100-sxm", "none", {"y: memory", "z: memory"}, {}},
    {"XlaPacksNothing", apart(96, 64), "h100-sxm", "xla", {"y: memory", "z: memory"}, {}},
    {"ACpuPacksNothing", apart(96, 64), "cpu", "auto", {"y: memory", "z: memory"}, {}},
    // greedy leaves the two apart, which no edge joins.
    {"BestTakesTheQuickestPlanOfAllPlanners",
     R"((x: f32[64], w: f32[8,8]) {
  a = exp x : f32[64]
  b = neg x : f32[64]
  c = dot_general w, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
} -> (a, b, c))",
     "cpu",
     "best",
     {"a, b: memory elementwise", "c: compute"},
     {}},
    // Kernels that fill the device gain nothing.
    {"BusyKernelsStayAlone",
     apart(4096, 1024),
     "h100-sxm",
     "greedy",
     {"y: memory", "z: memory"},
     {}},
    // Rows and columns of x are reduced in one kernel, behind a barrier of the grid; no kernel
    // without one does.
    {"WhatOnlyABarrierHoldsStaysAlone",
     R"((x: f32[16,11], w: f32[11], u: f32[33,11], v: f32[33,11]) {
  a = min u, v : f32[33,11]
  r = reduce x, axes={1}, combiner=max : f32[16]
  c = reduce x, axes={0}, combiner=sum : f32[11]
  z = mul c, w : f32[11]
} -> (a, r, z))",
     "rtx3080",
     "greedy",
     {"a: memory", "r, c, z: memory rows and columns"},
     {{"c: fused", ""}}},
    // A chain of two steps beside another: steps of one level meet, a step never meets what it
    // reads.
    {"PackingKeepsDependencesInOrder",
     R"((x: f32[6,90], u: f32[9,100]) {
  a = reduce x, axes={1}, combiner=sum : f32[6]
  b = reshape a : f32[2,3]
  c = reduce b, axes={0}, combiner=max : f32[3]
  d = reduce u, axes={1}, combiner=sum : f32[9]
  e = reshape d : f32[3,3]
  f = reduce e, axes={0}, combiner=max : f32[3]
} -> (c, f))",
     "h100-sxm",
     "greedy",
     {"a | d: memory", "c | f: memory"},
     {{"a: ", ""}, {"d: ", ""}}},
    // The rows of the first product stay in their block, which multiplies them again.
    {"AutoWeighsChains",
     R"((q: f16[8,128,64], k: f16[8,512,64], v: f16[8,512,64]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f16[8,128,512]
  e = exp a : f16[8,128,512]
  y = dot_general e, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f16[8,128,64]
} -> (y))",
     "a100-40gb",
     "auto",
     {"a, e, y: compute chain on fragments"},
     {{"a: fused", "a chain takes"}, {"e: fused", "a chain takes"}}},
};

INSTANTIATE_TEST_SUITE_P(Planner, PlannerCases, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace weft
