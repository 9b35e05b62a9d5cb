// Groups that no template holds as blocks of stages: planned, printed and read back, run on this
// machine and on the emulator, beside the interpreter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/explain/candidates_text.h"
#include "driver/print_level.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "tests/driver/emulated_graph.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

/// Scores of queries against keys, masked, softmax over the keys, the weighted sum of values.
const char* const kAttention =
    R"((q: f32[4,96,32], k: f32[4,131,32], v: f32[4,131,32], z: f32[96,131]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[4,96,131]
  c = constant 0.125 : f32[]
  cb = broadcast c, dims={} : f32[4,96,131]
  b = mul a, cb : f32[4,96,131]
  zb = broadcast z, dims={1,2} : f32[4,96,131]
  t = add b, zb : f32[4,96,131]
  m = reduce t, axes={2}, combiner=max : f32[4,96]
  mb = broadcast m, dims={0,1} : f32[4,96,131]
  d = sub t, mb : f32[4,96,131]
  e = exp d : f32[4,96,131]
  s = reduce e, axes={2}, combiner=sum : f32[4,96]
  sb = broadcast s, dims={0,1} : f32[4,96,131]
  p = div e, sb : f32[4,96,131]
  y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[4,96,32]
} -> (y))";

/// A position decides what is masked: what a box says of an axis is not where it begins.
const char* const kCausal = R"((q: f32[2,70,16], k: f32[2,70,16], v: f32[2,70,16]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,70,70]
  i = iota axis=1 : i64[2,70,70]
  j = iota axis=2 : i64[2,70,70]
  l = le j, i : bool[2,70,70]
  c = constant -1e9 : f32[]
  cb = broadcast c, dims={} : f32[2,70,70]
  t = select l, a, cb : f32[2,70,70]
  m = reduce t, axes={2}, combiner=max : f32[2,70]
  mb = broadcast m, dims={0,1} : f32[2,70,70]
  d = sub t, mb : f32[2,70,70]
  e = exp d : f32[2,70,70]
  y = dot_general e, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,70,16]
} -> (y))";

CompileOptions with_blocks() {
  CompileOptions options;
  options.compositions = "leaf,block";
  options.planner_parameters = "gain=0";       // whatever they save
  options.device = *find_target("x86-64-v3");  // what is quicker does not hang on this machine
  options.verify = true;
  return options;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) {
    HostTensor& t = inputs.emplace_back(graph.type(v).dtype, graph.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_double(
          i,
          static_cast<double>((i * 37 + static_cast<int64_t>(inputs.size()) * 11) % 29) / 14.5 - 1);
  }
  return inputs;
}

/// The graph on this machine, its kernels as the options say, beside the interpreter.
std::unique_ptr<Compilation> run_here(const char* text, const CompileOptions& options) {
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  const std::vector<HostTensor> inputs = inputs_of(*graph);
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  if (!compiled.ok()) return nullptr;
  const auto session = Session::create((*compiled)->program, 2);
  EXPECT_TRUE(session.ok());
  const auto got = (*session)->run(inputs);
  const auto expected = interpret(*graph, inputs);
  EXPECT_TRUE(got.ok() && expected.ok());
  if (!got.ok() || !expected.ok()) return nullptr;
  for (int64_t i = 0; i < (*expected)[0].size(); ++i) {
    const double e = (*expected)[0].at_double(i);
    EXPECT_NEAR((*got)[0].at_double(i), e, 1e-5 * std::max(1.0, std::abs(e))) << i;
    if (::testing::Test::HasFailure()) break;
  }
  return std::move(*compiled);
}

TEST(BlockStages, HoldRowsBetweenProductsOnACpu) {
  for (const char* const graph : {kAttention, kCausal}) {
    const auto c = run_here(graph, with_blocks());
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(c->plan.kernels.size(), 1U) << print(c->plan, c->tensors);
    EXPECT_EQ(c->plan.kernels[0].schedule.composition.kind, Composition::Kind::kBlock);
    CompileOptions leaves;
    leaves.device = with_blocks().device;
    leaves.compositions = "leaf";
    leaves.verify = true;
    const auto apart = run_here(graph, leaves);
    ASSERT_NE(apart, nullptr);
    EXPECT_EQ(apart->plan.kernels.size(), 3U);
  }
}

TEST(BlockStages, AreBuiltFromAPlanAsTheyWereComposed) {
  const auto first = run_here(kAttention, with_blocks());
  ASSERT_NE(first, nullptr);
  CompileOptions given;
  given.device = with_blocks().device;
  given.plan_text = *print_level(*first, "plan");
  given.plan_source = "p.plan";
  const auto second = run_here(kAttention, given);
  ASSERT_NE(second, nullptr);
  for (const char* level : {"plan", "tile-program", "code"})
    EXPECT_EQ(*print_level(*second, level), *print_level(*first, level)) << level;
}

/// Scores of long rows, for which a block has room where their weights are made again.
const char* const kLongRows = R"((q: f32[2,4,16], k: f32[2,512,16], v: f32[2,512,16]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,4,512]
  m = reduce a, axes={2}, combiner=max : f32[2,4]
  mb = broadcast m, dims={0,1} : f32[2,4,512]
  d = sub a, mb : f32[2,4,512]
  e = exp d : f32[2,4,512]
  s = reduce e, axes={2}, combiner=sum : f32[2,4]
  sb = broadcast s, dims={0,1} : f32[2,4,512]
  p = div e, sb : f32[2,4,512]
  y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,4,16]
} -> (y))";

/// A plan that says which expressions share a kernel, and names a template of other targets.
std::string one_kernel_by(const char* foreign) {
  return "plan none {\n  kernel k0_y compute block by leaf(" + std::string(foreign) +
         "): a, m, d, e, s, p, y -> y\n}\n";
}

TEST(BlockStages, MakeAgainWhatTheyHaveNoRoomForOnACpu) {
  CompileOptions options = with_blocks();
  options.device->l2_bytes = 12000;
  options.plan_text = one_kernel_by("rows vec_axis 0 free [0] warps 1");
  options.plan_source = "p.plan";
  const auto c = run_here(kLongRows, options);
  ASSERT_NE(c, nullptr);
  const ScheduledKernel& kernel = c->plan.kernels[0].schedule;
  EXPECT_LE(kernel.scopes.block_bytes, 6000);
  EXPECT_THAT(print(kernel.composition), ::testing::Not(HasSubstr(" v3")));
  options.plan_text = *print_level(*c, "plan");
  const auto again = run_here(kLongRows, options);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(*print_level(*again, "code"), *print_level(*c, "code"));
}

/// Three values that are read along both axes, of which a block has room for two: the cheap one is
/// made again.
TEST(BlockStages, MakeAgainWhatTheyHaveNoRoomForOnAGpu) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  const char* const classes = R"((x: f32[2,160,128], w: f32[2,128,8]) {
  c = add x, x : f32[2,160,128]
  e = exp x : f32[2,160,128]
  p = tanh x : f32[2,160,128]
  m = reduce c, axes={1}, combiner=max : f32[2,128]
  n = reduce c, axes={2}, combiner=max : f32[2,160]
  f = reduce e, axes={1}, combiner=max : f32[2,128]
  g = reduce e, axes={2}, combiner=max : f32[2,160]
  h = reduce p, axes={1}, combiner=max : f32[2,128]
  y = dot_general p, w, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,160,8]
} -> (m, n, f, g, h, y))";
  const Target target = *find_target("a100-40gb");
  CompileOptions given;
  given.plan_text =
      "plan none {\n  kernel k0_y compute block by leaf(sweep vec_axis 0): "
      "c, e, p, m, n, f, g, h, y -> m, n, f, g, h, y\n}\n";
  given.plan_source = "p.plan";
  const EmulatedRun run = run_and_compare(classes, target, 1e-4, false, given);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.launches.size(), 1U);
  EXPECT_LE(run.schedule(0).scopes.block_bytes, target.shared_bytes_per_block);
  const Composition& how = run.schedule(0).composition;
  for (const std::vector<int>& stage : how.stages)
    EXPECT_THAT(stage, ::testing::Not(::testing::Contains(0))) << print(how);
}

/// A plan made for one device says which expressions share a kernel on another, too.
TEST(BlockStages, RunOnTheEmulatorByAPlanForACpu) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  for (const char* const graph : {kAttention, kCausal}) {
    const auto here = run_here(graph, with_blocks());
    ASSERT_NE(here, nullptr);
    CompileOptions given;
    given.plan_text = *print_level(*here, "plan");
    given.plan_source = "p.plan";
    const EmulatedRun run = run_and_compare(graph, *find_target("a100-40gb"), 1e-4, false, given);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_EQ(run.launches.size(), 1U);
    EXPECT_THAT(print(run.schedule(0).composition), HasSubstr("block("));
  }
}

/// Rows and columns of one tensor, normed by each other: cut along either, blocks would store the
/// other's results several times. One block is always valid (FusionStitching 2018, section 4.3).
TEST(BlockStages, OneBlockHoldsWhatNoCutDoes) {
  const char* const graph = R"((x: f32[32,48]) {
  e = exp x : f32[32,48]
  r = reduce e, axes={1}, combiner=sum : f32[32]
  rb = broadcast r, dims={0} : f32[32,48]
  n = div e, rb : f32[32,48]
  c = reduce n, axes={0}, combiner=max : f32[48]
  cb = broadcast c, dims={1} : f32[32,48]
  z = sub n, cb : f32[32,48]
  s = reduce z, axes={1}, combiner=max : f32[32]
  q = reduce z, axes={0}, combiner=sum : f32[48]
} -> (q, s))";
  CompileOptions options = with_blocks();
  options.planner = "greedy";
  const auto here = run_here(graph, options);
  ASSERT_NE(here, nullptr);
  ASSERT_EQ(here->plan.kernels.size(), 1U);
  EXPECT_THAT(print(here->plan.kernels[0].schedule.composition), HasSubstr("block(v6, v5) {"));
  const auto text = candidates_text(explained(*here), "1");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("blocks store the same elements several times of s"));
  if (!can_emulate()) return;
  const EmulatedRun run = run_and_compare(graph, *find_target("a100-40gb"), 1e-5, false, options);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_EQ(run.launches.size(), 1U);
  EXPECT_THAT(print(run.schedule(0).composition), HasSubstr("block(v6, v5) {"));
}

TEST(BlockStages, SayWhichPartitionsWereConsidered) {
  const auto c = run_here(kAttention, with_blocks());
  ASSERT_NE(c, nullptr);
  const auto text = candidates_text(explained(*c), "1");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("block(v8: d0 1, d1 "));
  EXPECT_THAT(*text, HasSubstr("blocks compute"));
  EXPECT_THAT(*text, HasSubstr("built as block("));
}

/// What a text says of stages is checked against the kernel's expressions.
TEST(BlockStages, RefuseStagesThatAreNone) {
  const auto graph = parse_graph(kAttention);
  ASSERT_TRUE(graph.ok());
  const CompileOptions options = with_blocks();
  const auto made = compile_graph(*graph, options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string plan = *print_level(**made, "plan");
  const std::pair<const char*, const char*> edits[] = {
      {"block(v8:", "block(v9:"},            // no such member
      {"block(v8: ", "block(v8: d9 1, "},    // along no axis
      {" v0 v1 v2;", " v1 v2;"},             // a product is left out
      {" v8 }", " v7 }"},                    // made twice
      {" v0 v1 v2;", " v0 v1 v2 v8;"},       // read before it is made
      {"vec_strides [", "vec_strides [1, "}  // not of the stage's reads
  };
  for (const auto& [from, to] : edits) {
    ASSERT_THAT(plan, HasSubstr(from));
    CompileOptions given;
    given.device = options.device;
    given.plan_text = replaced(plan, from, to);
    given.plan_source = "p.plan";
    const auto compiled = compile_graph(*graph, given);
    ASSERT_FALSE(compiled.ok()) << from;
    EXPECT_EQ(compiled.error().code, ErrorCode::kInvalidInput) << compiled.error().message;
  }
}

}  // namespace
}  // namespace weft::testing
