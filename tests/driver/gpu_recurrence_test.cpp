// Loops whose iterations all run in one launch, from the graph to the emulator: what a step stores
// the next one reads behind a barrier of the grid.

#include <tuple>

#include "tests/driver/gpu_pipeline.h"
#include "tests/graph/random_graph.h"
#include "tile/rewrite/reuse_boxes.h"
#include "tile/scope_analysis.h"

namespace weft::testing {
namespace {

class GpuRecurrence : public GpuPipeline {
 protected:
  /// Equal to the interpreter without races, in so many launches, one of which runs a loop of so
  /// many members with a barrier for each of `phases`; and the same from the plan's text.
  static void expect_one_launch(const std::string& text, size_t launches, size_t members,
                                size_t phases, double tolerance = 1e-4) {
    for (const char* device : {"a100-40gb", "rtx3080"}) {
      for (const char* planner : {"subprogram", "none"}) {
        SCOPED_TRACE(std::string(device) + " " + planner + text);
        CompileOptions options;
        options.planner = planner;
        options.compositions = "leaf,recur";
        const bool whole = std::string_view(planner) == "subprogram";
        const EmulatedRun run =
            run_and_compare(text, *find_target(device), tolerance, false, options);
        ASSERT_NE(run.compilation, nullptr);
        const std::string plan = expect_plan_from_text(*run.compilation);
        if (whole) EXPECT_EQ(run.launches.size(), launches) << plan;
        const ScheduledKernel* recurs = nullptr;
        for (const auto& regions : run.compilation->plan.regions) {
          if (runs_whole_loop(regions)) recurs = &regions[0]->kernels[0].schedule;
        }
        ASSERT_NE(recurs, nullptr) << plan;
        EXPECT_EQ(recurs->composition.kind, Composition::Kind::kRecur);
        if (whole) EXPECT_EQ(recurs->composition.members.size(), members) << plan;
        const auto in_loop = [](const BarrierPoint& b) {
          return b.scope == Scope::kGrid && b.before.size() == 2;
        };
        if (whole)
          EXPECT_EQ(std::ranges::count_if(recurs->scopes.barriers, in_loop), phases) << plan;
        expect_no_spills(run);
      }
    }
  }

  /// The kernels of a plan that run whole loops, alone or among others.
  static std::vector<const PlannedKernel*> whole_loops(const FusionPlan& plan) {
    std::vector<const PlannedKernel*> out;
    for (const auto& regions : plan.regions) {
      if (runs_whole_loop(regions)) out.push_back(&regions[0]->kernels[0]);
    }
    for (const PlannedKernel& kernel : plan.kernels) {
      for (const LoopMember& loop : kernel.loops) out.push_back(&loop.body->kernels[0]);
    }
    return out;
  }

  /// Equal to the interpreter without races, in one launch that holds so many loops among so many
  /// members; and the same from the plan's text, and lowered without spills.
  static void expect_loops_join(const std::string& text, size_t members, size_t loops) {
    for (const char* device : {"a100-40gb", "h100-sxm"}) {
      SCOPED_TRACE(std::string(device) + text);
      CompileOptions options;
      options.planner = "subprogram";
      options.compositions = "leaf,grid,recur";
      const EmulatedRun run = run_and_compare(text, *find_target(device), 1e-4, false, options);
      ASSERT_NE(run.compilation, nullptr);
      const std::string plan = expect_plan_from_text(*run.compilation);
      EXPECT_EQ(run.launches.size(), 1U) << plan;
      ASSERT_EQ(run.compilation->plan.kernels.size(), 1U) << plan;
      const PlannedKernel& kernel = run.compilation->plan.kernels[0];
      EXPECT_EQ(kernel.schedule.composition.kind, Composition::Kind::kGrid);
      EXPECT_EQ(kernel.members.size(), members) << plan;
      EXPECT_EQ(kernel.loops.size(), loops) << plan;
      const auto in_loop = [](const BarrierPoint& b) {
        return b.scope == Scope::kGrid && b.before.size() == 2;
      };
      EXPECT_GE(std::ranges::count_if(kernel.schedule.scopes.barriers, in_loop), loops) << plan;
      expect_no_spills(run);
      options.plan_text = plan;
      const EmulatedRun again = run_and_compare(text, *find_target(device), 1e-4, false, options);
      ASSERT_NE(again.compilation, nullptr);
      EXPECT_EQ(again.code(), run.code());
    }
  }

  static std::string sized(std::string text, const std::string& steps, const std::string& rows,
                           const std::string& hidden) {
    text = replaced(std::move(text), "$T", steps);
    text = replaced(std::move(text), "$B", rows);
    return replaced(std::move(text), "$H", hidden);
  }
};

constexpr const char* kStep = R"(
  region (h: f32[$B,$H], x: f32[$B,$H], w: f32[$H,$H]) {
    p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[$B,$H]
    a = add p, x : f32[$B,$H]
    n = tanh a : f32[$B,$H]
    m = reduce n, axes={1}, combiner=max : f32[$B]
  } -> (n, m)
)";

/// A product a step, of what is carried; rows of the result leave it, too.
TEST_F(GpuRecurrence, AProductOfWhatIsCarried) {
  for (const auto& [steps, rows, hidden, members] : {std::tuple("5", "1", "33", size_t{2}),
                                                     {"7", "3", "64", size_t{2}},
                                                     {"4", "9", "50", size_t{1}},
                                                     {"1", "2", "20", size_t{2}}}) {
    expect_one_launch(
        sized(std::string("(h0: f32[$B,$H], xs: f32[$T,$B,$H], w: f32[$H,$H]) {\n") +
                  "last, all = scan h0, xs, w, carry_count=1, scanned_count=1, x_reverse={false}, "
                  "y_reverse={true} : f32[$B,$H], f32[$T,$B]" +
                  kStep + "} -> (last, all)",
              steps, rows, hidden),
        1, members, members);
  }
}

/// Weights of 16 bits are read as such in each step, and not widened in front of the loop.
TEST_F(GpuRecurrence, WeightsOfSixteenBits) {
  for (const char* type : {"f16", "bf16"}) {
    expect_one_launch(
        replaced(
            sized(std::string("(h0: f32[$B,$H], xs: f32[$T,$B,$H], w16: $W[1,$H,$H]) {\n") +
                      "wide = convert w16 : f32[1,$H,$H]\n" + "w = reshape wide : f32[$H,$H]\n" +
                      "last, all = scan h0, xs, w, carry_count=1, scanned_count=1, "
                      "x_reverse={false}, y_reverse={false} : f32[$B,$H], f32[$T,$B]" +
                      kStep + "} -> (last, all)",
                  "5", "1", "40"),
            "$W", type),
        1, 2, 2);
  }
}

/// What is carried is stacked as well, of slices from the last to the first. One block needs no
/// barrier of the grid.
TEST_F(GpuRecurrence, CarriesThatAreStacked) {
  expect_one_launch(R"(
    (h0: f32[3,40], g0: f32[3,40], xs: f32[6,3,40]) {
      h, g, all = scan h0, g0, xs, carry_count=2, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[3,40], f32[3,40], f32[6,3,40]
        region (h: f32[3,40], g: f32[3,40], x: f32[3,40]) {
          a = mul h, x : f32[3,40]
          b = sub a, g : f32[3,40]
          n = tanh b : f32[3,40]
        } -> (n, o=b, y=n)
    } -> (h, g, all))",
                    1, 1, 1);
}

/// A step of several phases, whose values between are read in another shape.
TEST_F(GpuRecurrence, PhasesInOtherShapes) {
  expect_one_launch(R"(
    (h0: f32[6,20], xs: f32[5,6,20], w: f32[120,30], v: f32[30,120]) {
      h, ys = scan h0, xs, w, v, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[6,20], f32[5,30]
        region (h: f32[6,20], x: f32[6,20], w: f32[120,30], v: f32[30,120]) {
          s = add h, x : f32[6,20]
          r = reshape s : f32[1,120]
          p = dot_general r, w, lhs_contract={1}, rhs_contract={0} : f32[1,30]
          e = sigmoid p : f32[1,30]
          y = reshape e : f32[30]
          q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[1,120]
          n = reshape q : f32[6,20]
        } -> (n, y)
    } -> (h, ys))",
                    1, 2, 2);
}

/// Layers above each other are one loop, whose layers' kernels stand side by side.
TEST_F(GpuRecurrence, LayersAreAWavefront) {
  const std::string scan =
      ", carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[1,192], "
      "f32[16,1,192]\n"
      "  region (h: f32[1,192], x: f32[1,192], w: f32[192,192]) {\n"
      "    p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[1,192]\n"
      "    c = constant 0.0625 : f32[]\n    k = broadcast c, dims={} : f32[1,192]\n"
      "    q = mul p, k : f32[1,192]\n    a = add q, x : f32[1,192]\n"
      "    n = tanh a : f32[1,192]\n  } -> (n, y=n)\n";
  std::string text = "(h: f32[1,192], x: f32[16,1,192], w: f32[192,192], u: f32[192,192]) {\n";
  text += "  l0, a0 = scan h, x, w" + scan;
  for (const char* l : {"1", "2"}) {
    const std::string below = std::string(l) == "1" ? "0" : "1";
    text += "  x" + std::string(l) + " = dot_general a" + below +
            ", u, lhs_contract={2}, rhs_contract={0} : f32[16,1,192]\n";
    text += "  l" + std::string(l) + ", a" + l + " = scan h, x" + l + ", w" + scan;
  }
  text += "} -> (a2, l1)";
  const Target target = *find_target("a100-40gb");
  const EmulatedRun run = run_and_compare(text, target, 1e-4);
  ASSERT_NE(run.compilation, nullptr);
  const std::string plan = expect_plan_from_text(*run.compilation);
  EXPECT_TRUE(run.compilation->plan.skewed) << plan;
  ASSERT_EQ(run.compilation->plan.regions.size(), 1U) << plan;
  EXPECT_EQ(whole_loops(run.compilation->plan).size(), 1U) << plan;
}

/// So are those that each step of one loop goes through.
TEST_F(GpuRecurrence, LayersOfAStepAreAWavefront) {
  std::string text =
      "(h: f32[1,192], x: f32[16,1,192], w: f32[192,192], u: f32[192,192]) {\n"
      "  a, b, c, y = scan h, h, h, x, w, u, carry_count=3, scanned_count=1, x_reverse={false}, "
      "y_reverse={false} : f32[1,192], f32[1,192], f32[1,192], f32[16,1,192]\n"
      "  region (h0: f32[1,192], h1: f32[1,192], h2: f32[1,192], x: f32[1,192], w: f32[192,192], "
      "u: f32[192,192]) {\n"
      "    c = constant 0.0625 : f32[]\n    k = broadcast c, dims={} : f32[1,192]\n";
  std::string below = "x";
  for (const std::string l : {"0", "1", "2"}) {
    text += "    p" + l + " = dot_general h" + l +
            ", w, lhs_contract={1}, rhs_contract={0} : f32[1,192]\n    i" + l + " = dot_general " +
            below + ", u, lhs_contract={1}, rhs_contract={0} : f32[1,192]\n    s" + l + " = add p" +
            l + ", i" + l + " : f32[1,192]\n    q" + l + " = mul s" + l +
            ", k : f32[1,192]\n    n" + l + " = tanh q" + l + " : f32[1,192]\n";
    below = "n" + l;
  }
  text += "  } -> (n0, n1, n2, y=n2)\n} -> (y, b)";
  const EmulatedRun run = run_and_compare(text, *find_target("a100-40gb"), 1e-4);
  ASSERT_NE(run.compilation, nullptr);
  const std::string plan = expect_plan_from_text(*run.compilation);
  EXPECT_TRUE(run.compilation->plan.rolled) << plan;
  EXPECT_TRUE(run.compilation->plan.skewed) << plan;
  EXPECT_EQ(whole_loops(run.compilation->plan).size(), 1U) << plan;
}

/// The weights of two products a step stay in the memory of blocks, which hand the first product on
/// themselves: three phases for four kernels.
TEST_F(GpuRecurrence, WeightsStayOnChip) {
  const std::string text =
      "(h0: f32[1,200], g0: f32[1,200], xs: f32[6,1,200], w: f32[200,200], v: f32[200,200]) {\n"
      "h, g, ys = scan h0, g0, xs, w, v, carry_count=2, scanned_count=1, x_reverse={false}, "
      "y_reverse={false} : f32[1,200], f32[1,200], f32[6,1,200]\n"
      "  region (h: f32[1,200], g: f32[1,200], x: f32[1,200], w: f32[200,200], v: f32[200,200]) {\n"
      "    p = dot_general h, w, lhs_contract={1}, rhs_contract={1} : f32[1,200]\n"
      "    q = dot_general g, v, lhs_contract={1}, rhs_contract={1} : f32[1,200]\n"
      "    c = constant 0.0625 : f32[]\n    e = broadcast c, dims={} : f32[1,200]\n"
      "    s = add p, q : f32[1,200]\n    a = mul s, e : f32[1,200]\n"
      "    b = add a, x : f32[1,200]\n"
      "    n = tanh b : f32[1,200]\n    k = reduce n, axes={1}, combiner=max : f32[1]\n"
      "    r = broadcast k, dims={0} : f32[1,200]\n"
      "    m = mul r, h : f32[1,200]\n  } -> (n, m, b)\n} -> (h, g, ys)";
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,recur";
  const Target target = *find_target("h100-sxm");
  const EmulatedRun run = run_and_compare(text, target, 1e-4, false, options);
  ASSERT_NE(run.compilation, nullptr);
  const std::string plan = expect_plan_from_text(*run.compilation);
  ASSERT_NE(plan.find("recur resident {"), std::string::npos) << plan;
  const std::vector<const PlannedKernel*> loops = whole_loops(run.compilation->plan);
  ASSERT_EQ(loops.size(), 1U);
  const ScheduledKernel& steps = loops[0]->schedule;
  const BoxReuse kept = reuse_of(steps.program, steps.scopes);
  EXPECT_EQ(kept.saved_bytes, 6 * 2 * 200 * 200 * 4);
  const auto in_loop = [](const BarrierPoint& b) {
    return b.scope == Scope::kGrid && b.before.size() == 2;
  };
  EXPECT_EQ(std::ranges::count_if(steps.scopes.barriers, in_loop), 3) << plan;
  expect_no_spills(run);
}

/// Layers whose steps are written out: loops, then one of all layers. A plan's text is built in the
/// forms that it is of.
TEST_F(GpuRecurrence, WrittenOutLayersAreAWavefront) {
  constexpr int kSteps = 40;
  std::string text =
      "(h: f32[1,160], x: f32[40,160], wa: f32[160,160], wb: f32[160,160]) {\n"
      "  c = constant 0.0625 : f32[]\n  k = broadcast c, dims={} : f32[1,160]\n";
  std::string below = "h", beside = "h";
  for (int t = 0; t < kSteps; ++t) {
    const std::string n = std::to_string(t);
    const auto layer = [&](const std::string& l, const std::string& carried,
                           const std::string& input) {
      text += "  p" + l + n + " = dot_general " + carried + ", w" + l +
              ", lhs_contract={1}, rhs_contract={0} : f32[1,160]\n  q" + l + n + " = mul p" + l +
              n + ", k : f32[1,160]\n  a" + l + n + " = add q" + l + n + ", " + input +
              " : f32[1,160]\n  n" + l + n + " = tanh a" + l + n + " : f32[1,160]\n";
      return "n" + l + n;
    };
    text += "  x" + n + " = slice x, start={" + n + ",0}, step={1,1} : f32[1,160]\n";
    below = layer("a", below, "x" + n);
    beside = layer("b", beside, below);
  }
  text += "} -> (" + below + ", " + beside + ")";
  const Target target = *find_target("a100-40gb");
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,recur";
  const EmulatedRun run = run_and_compare(text, target, 1e-4, false, options);
  ASSERT_NE(run.compilation, nullptr);
  const std::string plan = *print_level(*run.compilation, "plan");
  EXPECT_TRUE(run.compilation->plan.rolled) << plan;
  EXPECT_TRUE(run.compilation->plan.skewed) << plan;
  ASSERT_EQ(run.compilation->plan.regions.size(), 1U) << plan;
  EXPECT_TRUE(runs_whole_loop(run.compilation->plan.regions[0])) << plan;
  options.plan_text = plan;
  const EmulatedRun again = run_and_compare(text, target, 1e-4, false, options);
  ASSERT_NE(again.compilation, nullptr);
  EXPECT_EQ(*print_level(*again.compilation, "plan"), plan);
  EXPECT_EQ(again.code(), run.code());
}

/// Weights of the program, which are constants of a loop's body.
constexpr const char* kConstantWeights = R"(
  i0 = iota axis=0 : f32[$H,$H]
  i1 = iota axis=1 : f32[$H,$H]
  i2 = mul i0, i1 : f32[$H,$H]
  i3 = add i2, i1 : f32[$H,$H]
  w = sin i3 : f32[$H,$H]
)";

/// A loop with what its steps share in front of it and what reads its steps behind it: all of it is
/// one launch.
TEST_F(GpuRecurrence, ALoopBetweenKernels) {
  for (const auto& [steps, rows, hidden] : {std::tuple("5", "1", "33"), {"7", "3", "64"}}) {
    expect_loops_join(
        sized(std::string("(h0: f32[$B,$H], xs: f32[$T,$B,$H], v: f32[$H,$H]) {\n") +
                  kConstantWeights +
                  "p = dot_general xs, v, lhs_contract={2}, rhs_contract={0} : f32[$T,$B,$H]\n"
                  "last, all = scan h0, p, w, carry_count=1, scanned_count=1, x_reverse={false}, "
                  "y_reverse={true} : f32[$B,$H], f32[$T,$B]" +
                  kStep +
                  "s = reduce all, axes={0}, combiner=sum : f32[$B]\nt = tanh s : f32[$B]\n"
                  "} -> (last, t)",
              steps, rows, hidden),
        3, 1);
  }
}

/// Loops that read each other's results, with kernels between them. The second begins where a
/// kernel ends that reads all steps of the first, and goes from its last step to its first.
TEST_F(GpuRecurrence, LoopsOneAfterAnotherInOneLaunch) {
  for (const auto& [steps, rows, hidden] : {std::tuple("6", "3", "40")}) {
    const std::string scan =
        "carry_count=1, scanned_count=1, x_reverse={$R}, y_reverse={$R} : f32[$B,$H], "
        "f32[$T,$B,$H]\n"
        "  region (h: f32[$B,$H], x: f32[$B,$H], w: f32[$H,$H]) {\n"
        "    p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[$B,$H]\n"
        "    a = add p, x : f32[$B,$H]\n    n = tanh a : f32[$B,$H]\n  } -> (n, y=n)\n";
    expect_loops_join(
        sized(std::string("(h0: f32[$B,$H], xs: f32[$T,$B,$H]) {\n") + kConstantWeights +
                  "l0, a0 = scan h0, xs, w, " + replaced(scan, "$R", "false") +
                  "m = reduce a0, axes={0}, combiner=max : f32[$B,$H]\n"
                  "l1, a1 = scan m, a0, w, " +
                  replaced(scan, "$R", "true") +
                  "s = reduce a1, axes={2}, combiner=max : f32[$T,$B]\n"
                  "} -> (l0, l1, s)",
              steps, rows, hidden),
        4, 2);
  }
}

/// What a loop reads by steps and as a whole, and what stands beside it and reads the same.
TEST_F(GpuRecurrence, LoopsReadTensorsInSeveralWays) {
  for (const auto& [steps, hidden] : {std::tuple("5", "37"), {"8", "24"}}) {
    expect_loops_join(sized(R"((h0: f32[$H], xs: f32[$T,$H]) {
  e = tanh xs : f32[$T,$H]
  last, all = scan h0, e, xs, e, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[$H], f32[$T,$H]
    region (h: f32[$H], x: f32[$H], g: f32[$T,$H], f: f32[$T,$H]) {
      b = mul g, f : f32[$T,$H]
      r = reduce b, axes={0}, combiner=max : f32[$H]
      c = reduce h, axes={0}, combiner=max : f32[]
      d = broadcast c, dims={} : f32[$H]
      n = sub x, d : f32[$H]
      o = mul n, r : f32[$H]
      q = tanh o : f32[$H]
    } -> (q, y=q)
  u = sub xs, all : f32[$T,$H]
} -> (last, u))",
                            steps, "1", hidden),
                      3, 1);
  }
}

/// A random body over what is carried, a slice of each step and weights.
class RandomBody {
 public:
  RandomBody(uint64_t seed, std::string rows, std::string hidden)
      : random_(seed), rows_(std::move(rows)), hidden_(std::move(hidden)) {}

  std::string text() {
    for (const char* given : {"h", "g", "x"}) values_.push_back({given, true});
    const int64_t steps = random_.between(2, 9);
    for (int64_t s = 0; s < steps; ++s) add(s);
    const std::string next = pick(true), other = random_.chance(30) ? "h" : pick(true);
    const Value stacked =
        values_[static_cast<size_t>(random_.between(0, static_cast<int64_t>(values_.size()) - 1))];
    stacked_ = stacked.whole ? rows_ + "," + hidden_ : rows_;
    return "  region (h: f32[" + of(true) + "], g: f32[" + of(true) + "], x: f32[" + of(true) +
           "], w: f32[" + hidden_ + "," + hidden_ + "]) {\n" + body_ + "  } -> (n=" + next +
           ", o=" + other + ", y=" + stacked.name + ")\n";
  }
  const std::string& stacked() const { return stacked_; }  ///< the shape; after text()

 private:
  struct Value {
    std::string name;
    bool whole = true;  ///< [rows, hidden], else [rows]
  };

  std::string of(bool whole) const { return whole ? rows_ + "," + hidden_ : rows_; }
  std::string pick(bool whole) {
    std::vector<std::string> names;
    for (const Value& v : values_) {
      if (v.whole == whole) names.push_back(v.name);
    }
    return random_.pick(names);
  }
  void line(const std::string& name, const std::string& rest, bool whole) {
    body_ += "    " + name + " = " + rest + " : f32[" + of(whole) + "]\n";
    values_.push_back({name, whole});
  }
  void add(int64_t number) {
    const std::string name = "v" + std::to_string(number);
    const bool rows = std::ranges::any_of(values_, [](const Value& v) { return !v.whole; });
    switch (random_.between(0, rows ? 5 : 3)) {
      case 0:
        line(name + "p", "dot_general " + pick(true) + ", w, lhs_contract={1}, rhs_contract={0}",
             true);
        return line(name, "tanh " + name + "p", true);
      case 1:
        return line(name, "sub " + pick(true) + ", " + pick(true), true);
      case 2:
        return line(name, "tanh " + pick(true), true);
      case 3:
        return line(name, "reduce " + pick(true) + ", axes={1}, combiner=max", false);
      case 4:
        line(name + "b", "broadcast " + pick(false) + ", dims={0}", true);
        return line(name, "sub " + pick(true) + ", " + name + "b", true);
      default:
        return line(name, "tanh " + pick(false), false);
    }
  }

  TestRandom random_;
  std::string rows_, hidden_, body_, stacked_;
  std::vector<Value> values_;
};

/// Random kernels in front of a loop and behind it.
class Around {
 public:
  Around(TestRandom& random, const std::string& steps, const std::string& shape,
         const std::string& stacked) {
    const std::string all = " : f32[" + steps + "," + shape + "]\n";
    before_ =
        "  xs = " +
        random.pick(std::vector<std::string>{
            "tanh x0", "mul x0, x0", "dot_general x0, w, lhs_contract={2}, rhs_contract={0}"}) +
        all;
    if (random.chance(50)) {
      before_ += "  h1 = reduce xs, axes={0}, combiner=max : f32[" + shape + "]\n";
      first_ = "h1";
    }
    behind_ = "  e = " + random.pick(std::vector<std::string>{"tanh all", "mul all, all"}) + " : " +
              stacked + "\n  s = sub h, g : f32[" + shape + "]\n";
    std::string results = "(g, e, s";
    if (random.chance(50)) {
      behind_ += "  q = reduce xs, axes={0}, combiner=sum : f32[" + shape +
                 "]\n  d = mul q, s : f32[" + shape + "]\n";
      results += ", d";
    }
    behind_ += "} -> " + results + ")";
  }
  const std::string& before() const { return before_; }
  const std::string& first() const { return first_; }  ///< what the first step gets
  const std::string& behind() const { return behind_; }

 private:
  std::string before_, first_ = "h0", behind_;
};

TEST_F(GpuRecurrence, RandomBodies) {
  int recurred = 0, joined = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    TestRandom random(seed + 100);
    const std::string steps = std::to_string(random.between(1, 6));
    const std::string rows = std::to_string(random.between(1, 9));
    const std::string hidden = std::to_string(random.between(2, 70));
    RandomBody body(seed, rows, hidden);
    const std::string region = body.text();
    const std::string shape = rows + "," + hidden;
    const std::string reversed = random.chance(50) ? "true" : "false";
    const std::string stacked = "f32[" + steps + "," + body.stacked() + "]";
    const Around around(random, steps, shape, stacked);
    const std::string text = "(h0: f32[" + shape + "], g0: f32[" + shape + "], x0: f32[" + steps +
                             "," + shape + "], w: f32[" + hidden + "," + hidden + "]) {\n" +
                             around.before() + "  h, g, all = scan " + around.first() +
                             ", g0, xs, w, carry_count=2, scanned_count=1, x_reverse={" + reversed +
                             "}, y_reverse={false} : f32[" + shape + "], f32[" + shape + "], " +
                             stacked + "\n" + region + around.behind();
    SCOPED_TRACE(text);
    CompileOptions options;
    options.planner = random.chance(70) ? "subprogram" : "none";
    options.compositions = random.chance(30) ? "leaf,recur" : "leaf,block,grid,recur";
    const char* device = random.pick(std::vector<const char*>{"a100-40gb", "rtx3080", "h100-sxm"});
    const EmulatedRun run = run_and_compare(text, *find_target(device), 2e-3, false, options);
    ASSERT_NE(run.compilation, nullptr);
    expect_plan_from_text(*run.compilation);
    recurred += static_cast<int>(whole_loops(run.compilation->plan).size());
    for (const PlannedKernel& kernel : run.compilation->plan.kernels)
      joined += static_cast<int>(kernel.loops.size());
  }
  EXPECT_GE(recurred, 8);
  EXPECT_GE(joined, 2);
}

/// Rows that this step exchanges, read by lanes of a tile that is taller than they are many: what
/// lies beyond them in the stacked places is the next step's, and not there yet.
TEST_F(GpuRecurrence, PlacesOfLaterStepsAreNotRead) {
  const EmulatedRun run = run_and_compare(R"(
(x: f32[3,6]) {
  s = iota axis=0 : i64[6]
  last, places = scan x, s, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[3,6], i64[6,3]
    region (h: f32[3,6], k: i64[]) {
      at = iota axis=1 : i64[3,6]
      place = arg_reduce h, axis=1, combiner=arg_max, last_on_ties=false : i64[3]
      largest = broadcast place, dims={0} : i64[3,6]
      step = broadcast k, dims={} : i64[3,6]
      is_largest = eq at, largest : bool[3,6]
      is_step = eq at, step : bool[3,6]
      moved = select is_largest, step, at : i64[3,6]
      from = select is_step, largest, moved : i64[3,6]
      exchanged = gather h, from, axis=1, batch_dims=1 : f32[3,6]
      half = constant 0.5 : f32[]
      halves = broadcast half, dims={} : f32[3,6]
      n = mul exchanged, halves : f32[3,6]
    } -> (n, place)
} -> (last, places)
)",
                                          *find_target("a100-40gb"), 1e-6);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_EQ(run.launches.size(), 1U);
}

}  // namespace
}  // namespace weft::testing
