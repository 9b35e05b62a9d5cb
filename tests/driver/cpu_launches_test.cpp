// Kernels of a CPU that share a launch, as its code runs them on several threads, beside the
// interpreter: one after another with barriers between, and side by side.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "driver/print_level.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "plan/planners/plan_fusion.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Gradients of rows that were normed: along the rows for the input, across them for the weights.
const char* const kNormGradients = R"((x: f32[128,1024], t: f32[128,1024], g: f32[1024]) {
  n = constant 0.0009765625 : f32[]
  nr = broadcast n, dims={} : f32[128]
  eps = constant 1e-5 : f32[]
  epsr = broadcast eps, dims={} : f32[128]
  s = reduce x, axes={1}, combiner=sum : f32[128]
  mu = mul s, nr : f32[128]
  mub = broadcast mu, dims={0} : f32[128,1024]
  d = sub x, mub : f32[128,1024]
  dd = mul d, d : f32[128,1024]
  q = reduce dd, axes={1}, combiner=sum : f32[128]
  qn = mul q, nr : f32[128]
  qe = add qn, epsr : f32[128]
  r = rsqrt qe : f32[128]
  rb = broadcast r, dims={0} : f32[128,1024]
  h = mul d, rb : f32[128,1024]
  th = mul t, h : f32[128,1024]
  dg = reduce th, axes={0}, combiner=sum : f32[1024]
  db = reduce t, axes={0}, combiner=sum : f32[1024]
  gb = broadcast g, dims={1} : f32[128,1024]
  u = mul t, gb : f32[128,1024]
  a = reduce u, axes={1}, combiner=sum : f32[128]
  an = mul a, nr : f32[128]
  ab = broadcast an, dims={0} : f32[128,1024]
  uh = mul u, h : f32[128,1024]
  b = reduce uh, axes={1}, combiner=sum : f32[128]
  bn = mul b, nr : f32[128]
  bb = broadcast bn, dims={0} : f32[128,1024]
  hb = mul h, bb : f32[128,1024]
  e = sub u, ab : f32[128,1024]
  f = sub e, hb : f32[128,1024]
  dx = mul f, rb : f32[128,1024]
} -> (dx, dg, db))";

/// Rows, seen in another shape, then multiplied (FusionStitching 2018, Fig. 3).
const char* const kRowsThenProduct = R"((s: f32[4,3,64,64], v: f32[12,64,64]) {
  m = reduce s, axes={3}, combiner=max : f32[4,3,64]
  mb = broadcast m, dims={0,1,2} : f32[4,3,64,64]
  d = sub s, mb : f32[4,3,64,64]
  e = exp d : f32[4,3,64,64]
  z = reduce e, axes={3}, combiner=sum : f32[4,3,64]
  zb = broadcast z, dims={0,1,2} : f32[4,3,64,64]
  n = div e, zb : f32[4,3,64,64]
  w = reshape n : f32[12,64,64]
  y = dot_general w, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[12,64,64]
} -> (y))";

/// Chains that need nothing of each other: each of one long sum, which one thread makes.
const char* const kApart = R"((a: f32[16384], b: f32[16384], c: f32[16384], x: f32[512,4096]) {
  ea = exp a : f32[16384]
  sa = reduce ea, axes={0}, combiner=sum : f32[]
  eb = log b : f32[16384]
  sb = reduce eb, axes={0}, combiner=max : f32[]
  ec = tanh c : f32[16384]
  sc = reduce ec, axes={0}, combiner=min : f32[]
  y = exp x : f32[512,4096]
} -> (sa, sb, sc, y))";

/// A product whose columns are scaled by their sums, and a product of another size.
const char* const kScaledColumns = R"((x: f32[144,512], w: f32[512,88], u: f32[88,44]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[144,88]
  m = reduce p, axes={0}, combiner=sum : f32[88]
  mb = broadcast m, dims={1} : f32[144,88]
  q = mul p, mb : f32[144,88]
  r = dot_general q, u, lhs_contract={1}, rhs_contract={0} : f32[144,44]
  y = tanh r : f32[144,44]
} -> (y))";

CompileOptions options_of(const std::string& planner) {
  CompileOptions options;
  options.planner = planner;
  options.device = *find_target("x86-64-v3");
  options.device->threads = 2;
  options.verify = true;
  return options;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::mt19937 random(7);
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) {
    HostTensor& t = inputs.emplace_back(graph.type(v).dtype, graph.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_double(i, static_cast<double>(random() % 2000 + 1) / 1000);
  }
  return inputs;
}

/// Compiled, and equal to the interpreter on one, two and three threads.
std::unique_ptr<Compilation> run_here(const char* text, const CompileOptions& options) {
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  if (!graph.ok()) return nullptr;
  const std::vector<HostTensor> inputs = inputs_of(*graph);
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  const auto expected = interpret(*graph, inputs);
  EXPECT_TRUE(expected.ok());
  if (!compiled.ok() || !expected.ok()) return nullptr;
  for (const int threads : {1, 2, 3}) {
    const auto session = Session::create((*compiled)->program, threads);
    EXPECT_TRUE(session.ok());
    const auto got = (*session)->run(inputs);
    EXPECT_TRUE(got.ok()) << got.error().message;
    if (!got.ok()) return nullptr;
    for (size_t o = 0; o < expected->size(); ++o) {
      for (int64_t i = 0; i < (*expected)[o].size(); ++i) {
        const double e = (*expected)[o].at_double(i);
        EXPECT_NEAR((*got)[o].at_double(i), e, 2e-4 * std::max(1.0, std::abs(e)))
            << threads << " threads, output " << o << " at " << i;
        if (::testing::Test::HasFailure()) return nullptr;
      }
    }
  }
  return std::move(*compiled);
}

int64_t barriers(const ScheduledKernel& kernel) {
  return std::ranges::count_if(kernel.scopes.barriers,
                               [](const BarrierPoint& b) { return b.scope == Scope::kGrid; });
}

/// The plan's text builds the same code.
void expect_same_from_text(const char* graph, const Compilation& c, CompileOptions options) {
  options.plan_text = *print_level(c, "plan");
  options.plan_source = "p.plan";
  const auto again = run_here(graph, options);
  ASSERT_NE(again, nullptr);
  for (const char* level : {"plan", "tile-program", "code"})
    EXPECT_EQ(*print_level(*again, level), *print_level(c, level)) << level;
}

TEST(CpuLaunches, RowsAndColumnsInOne) {
  for (const char* planner : {"auto", "subprogram"}) {
    const auto c = run_here(kNormGradients, options_of(planner));
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(c->plan.kernels.size(), 1U) << *print_level(*c, "plan");
    const ScheduledKernel& kernel = c->plan.kernels[0].schedule;
    EXPECT_EQ(kernel.composition.kind, Composition::Kind::kGrid);
    EXPECT_EQ(kernel.composition.members.size(), 3U);
    EXPECT_EQ(barriers(kernel), 1) << "columns beside each other need none";
    EXPECT_EQ(c->program.steps.size(), 1U);
    expect_same_from_text(kNormGradients, *c, options_of(planner));
  }
}

/// One start less is a hundredth of what the two take, and certain.
TEST(CpuLaunches, RowsThenAProductInOne) {
  for (const char* planner : {"auto", "subprogram"}) {
    CompileOptions options = options_of(planner);
    options.compositions = "leaf,grid";
    const auto c = run_here(kRowsThenProduct, options);
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(c->plan.kernels.size(), 1U) << *print_level(*c, "plan");
    const ScheduledKernel& kernel = c->plan.kernels[0].schedule;
    EXPECT_EQ(kernel.composition.kind, Composition::Kind::kGrid);
    EXPECT_EQ(barriers(kernel), 1);
    EXPECT_EQ(c->program.steps[0].launch.work_items.size(), 2U);
    expect_same_from_text(kRowsThenProduct, *c, options_of(planner));
  }
}

/// Operations without a kernel are shared as launches are: threads wait for what other threads
/// wrote.
TEST(CpuLaunches, OperationsWithoutAKernelAreShared) {
  const auto c = run_here(R"((x: f32[256,1024], i: i64[256,1], u: f32[256,1024]) {
  s = cumulative x, axis=1, combiner=sum : f32[256,1024]
  y = scatter_nd s, i, u, combines=true, combiner=sum : f32[256,1024]
  v, o = sort y, axis=1 : f32[256,1024], i64[256,1024]
  t, p = top_k v, k=128, axis=0 : f32[128,1024], i64[128,1024]
} -> (v, t, w=t))",
                          options_of("auto"));
  ASSERT_NE(c, nullptr);
  int shared = 0;
  for (const ProgramStep& step : c->program.steps) {
    if (step.kind != ProgramStep::Kind::kHost || step.host.serial) continue;
    ++shared;
    EXPECT_TRUE(step.barrier_before) << step.name << " reads what other threads wrote";
  }
  EXPECT_EQ(shared, 5) << "four operations, and a copy of one result";
}

/// Kernels that the plan has twice are compiled once as they are: a launch of their own code has to
/// save more.
TEST(CpuLaunches, KernelsOfOneCodeStayApart) {
  const std::string layer = R"(
  m$ = reduce x$, axes={1}, combiner=max : f32[512]
  mb$ = broadcast m$, dims={0} : f32[512,4096]
  d$ = sub x$, mb$ : f32[512,4096]
  n$ = reduce d$, axes={0}, combiner=sum : f32[4096]
  nb$ = broadcast n$, dims={1} : f32[512,4096]
  y$ = mul d$, nb$ : f32[512,4096])";
  const auto layers = [&](int count) {
    std::string text = "(x0: f32[512,4096]) {";
    for (int l = 0; l < count; ++l) {
      std::string own = layer;
      for (size_t at; (at = own.find('$')) != std::string::npos;)
        own.replace(at, 1, std::to_string(l));
      text += own + "\n  x" + std::to_string(l + 1) + " = tan y" + std::to_string(l) +
              " : f32[512,4096]";
    }
    return text + "\n} -> (x" + std::to_string(count) + ")";
  };
  const auto kernels = [&](int count) {
    auto compiled = compile_graph(*parse_graph(layers(count)), options_of("auto"));
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    return compiled.ok() ? (*compiled)->plan.kernels.size() : 0;
  };
  EXPECT_EQ(kernels(1), 1U);
  EXPECT_GE(kernels(3), 6U);
}

TEST(CpuLaunches, SmallKernelsSideBySide) {
  const auto c = run_here(kApart, options_of("auto"));
  ASSERT_NE(c, nullptr);
  const auto pack = std::ranges::find_if(c->plan.kernels, [](const PlannedKernel& k) {
    return k.schedule.composition.kind == Composition::Kind::kPack;
  });
  ASSERT_NE(pack, c->plan.kernels.end()) << *print_level(*c, "plan");
  EXPECT_EQ(pack->members.size(), 3U);
  EXPECT_THAT(pack->packed_because, HasSubstr("3 independent kernels on 2 threads"));
  expect_same_from_text(kApart, *c, options_of("auto"));
  CompileOptions apart = options_of("auto");
  apart.compositions = "leaf,block,chain";
  const auto alone = run_here(kApart, apart);
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(alone->plan.kernels.size(), c->plan.kernels.size() + 2);
}

/// What both threads made is scaled by both, and no thread writes where the other one did.
TEST(CpuLaunches, SmallStepsStayWhereTheirLinesAre) {
  const auto c = run_here(kScaledColumns, options_of("none"));
  ASSERT_NE(c, nullptr);
  ASSERT_EQ(c->program.steps.size(), 5U) << *print_level(*c, "plan");
  EXPECT_FALSE(c->program.steps[0].launch.serial);
  EXPECT_FALSE(c->program.steps[2].launch.serial);
  for (const ProgramBuffer& a : c->program.buffers) {
    for (const ProgramBuffer& b : c->program.buffers) {
      const bool in_arena = a.kind == ProgramBuffer::Kind::kArena && b.kind == a.kind;
      if (!in_arena || a.bytes <= b.bytes) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << a.name << " and " << b.name;
    }
  }
}

/// What a text puts in an order that cannot be.
TEST(CpuLaunches, RefuseMembersInAnotherOrder) {
  CompileOptions options = options_of("subprogram");
  options.compositions = "leaf,grid";
  const auto c = run_here(kRowsThenProduct, options);
  ASSERT_NE(c, nullptr);
  std::string text = *print_level(*c, "plan");
  const auto first = text.find("leaf("), second = text.find("leaf(", first + 1),
             end = text.find(" }", second);
  ASSERT_NE(end, std::string::npos) << text;
  const std::string one = text.substr(first, second - 2 - first),
                    other = text.substr(second, end - second);
  text = text.substr(0, first) + other + "; " + one + text.substr(end);
  const auto members = text.find(": ", text.find("because")), bar = text.find(" | ", members),
             arrow = text.find(" -> ", bar);
  ASSERT_NE(arrow, std::string::npos) << text;
  text = text.substr(0, members + 2) + text.substr(bar + 3, arrow - bar - 3) + " | " +
         text.substr(members + 2, bar - members - 2) + text.substr(arrow);
  options.plan_text = text;
  options.plan_source = "p.plan";
  const auto graph = parse_graph(kRowsThenProduct);
  ASSERT_TRUE(graph.ok());
  const auto swapped = compile_graph(*graph, options);
  ASSERT_FALSE(swapped.ok());
  EXPECT_THAT(swapped.error().message, HasSubstr("which a later one makes"));
}

}  // namespace
}  // namespace weft
