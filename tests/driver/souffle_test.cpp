// Souffle's ablation V0 to V4: what each step changes in the plan, and that all compute the same.

#include <set>

#include "tests/driver/gpu_pipeline.h"
#include "tile/rewrite/reuse_boxes.h"
#include "tile/scope_analysis.h"

namespace weft::testing {
namespace {

/// Two products of one input, a softmax of the first, every second row of an exponential of what
/// the second makes, transposed for a third product.
constexpr const char* kGraph = R"((x: f32[24,32]) {
  i = iota axis=1 : f32[32,40]
  w = sin i : f32[32,40]
  v = cos i : f32[32,40]
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[24,40]
  q = dot_general x, v, lhs_contract={1}, rhs_contract={0} : f32[24,40]
  m = reduce p, axes={1}, combiner=max : f32[24]
  mb = broadcast m, dims={0} : f32[24,40]
  d = sub p, mb : f32[24,40]
  e = exp d : f32[24,40]
  s = reduce e, axes={1}, combiner=sum : f32[24]
  sb = broadcast s, dims={0} : f32[24,40]
  y = div e, sb : f32[24,40]
  t = tanh x : f32[24,32]
  h = slice t, start={0,0}, step={2,1} : f32[12,32]
  g = exp h : f32[12,32]
  n = transpose q, permutation={1,0} : f32[40,24]
  z = dot_general n, y, lhs_contract={1}, rhs_contract={0} : f32[40,40]
} -> (z, g))";

class Souffle : public GpuPipeline {
 protected:
  static void SetUpTestSuite() {
    for (const Planner& planner : souffle_planners()) {
      CompileOptions options;
      options.planner = planner.name;
      plans_.push_back(
          run_and_compare(kGraph, *find_target("a100-40gb"), 1e-4, false, options).compilation);
    }
  }
  static void TearDownTestSuite() { plans_.clear(); }

  static const Compilation& step(size_t v) { return *plans_[v]; }
  static int64_t products(const Compilation& c) {
    return std::ranges::count_if(c.tensors.exprs, &TensorExpr::is_contraction);
  }
  static bool makes(const Compilation& c, const std::string& tensor) {
    return std::ranges::any_of(c.tensors.exprs, [&](const TensorExpr& e) {
      return c.tensors.tensors[static_cast<size_t>(e.output)].name == tensor;
    });
  }
  static bool has_grid(const Compilation& c) {
    return std::ranges::any_of(c.plan.kernels, [](const PlannedKernel& k) {
      return k.schedule.composition.kind == Composition::Kind::kGrid;
    });
  }
  /// Of a launch or a member of one: reductions in one kernel.
  static int64_t most_reductions(const Compilation& c) {
    int64_t most = 0;
    for (const PlannedKernel& k : c.plan.kernels) {
      for (const Group& g : k.members.empty() ? std::vector<Group>{k.group} : k.members) {
        most = std::max<int64_t>(
            most, std::ranges::count_if(g.exprs, [&](ExprId e) {
              return !c.tensors.exprs[static_cast<size_t>(e)].reduce_extents.empty();
            }));
      }
    }
    return most;
  }
  static std::unique_ptr<Compilation> planned(const std::string& text, const char* planner,
                                              const char* compositions = "") {
    CompileOptions options;
    options.compositions = compositions;
    options.device = *find_target("a100-40gb");
    options.planner = planner;
    options.stop_after = "plan";
    auto graph = parse_graph(text);
    EXPECT_TRUE(graph.ok()) << graph.error().message;
    if (!graph.ok()) return nullptr;
    auto c = compile_graph(std::move(*graph), options);
    EXPECT_TRUE(c.ok()) << c.error().message;
    return c.ok() ? std::move(*c) : nullptr;
  }
  static int64_t bytes(const Compilation& c) {
    const PlanTotals t = totals_of(c);
    return t.bytes_read + t.bytes_written;
  }

  static std::vector<std::unique_ptr<Compilation>> plans_;
};
std::vector<std::unique_ptr<Compilation>> Souffle::plans_;

TEST_F(Souffle, HorizontalMakesOneProductOfTwo) {
  EXPECT_EQ(products(step(0)), 3);
  EXPECT_EQ(products(step(1)), 2);
  EXPECT_LT(step(1).plan.kernels.size(), step(0).plan.kernels.size());
}

TEST_F(Souffle, VerticalComposesMovementAndArithmetic) {
  for (const char* tensor : {"n", "t"}) {
    EXPECT_TRUE(makes(step(1), tensor)) << tensor;
    EXPECT_FALSE(makes(step(2), tensor)) << tensor;
  }
}

TEST_F(Souffle, GlobalPutsDependentKernelsIntoOneLaunch) {
  EXPECT_FALSE(has_grid(step(2)));
  EXPECT_TRUE(has_grid(step(3)));
  EXPECT_LT(step(3).plan.kernels.size(), step(2).plan.kernels.size());
}

TEST_F(Souffle, ReuseKeepsReductionsOnChip) {
  EXPECT_EQ(most_reductions(step(3)), 1);
  EXPECT_GT(most_reductions(step(4)), 1);
  EXPECT_LT(bytes(step(4)), bytes(step(3)));
}

/// Squeeze and excitation of EfficientNet-b0.
std::string squeeze_graph(int channels, int size, int reduced) {
  const std::string n = std::to_string(channels), r = std::to_string(reduced),
                    s = std::to_string(size);
  return "(x: f32[" + n + "," + s + "," + s + "], w: f32[" + n + "," + r + "], v: f32[" + r + "," +
         n + "]) {\n  p = reduce x, axes={1,2}, combiner=sum : f32[" + n +
         "]\n  m = reshape p : f32[1," + n +
         "]\n  a = dot_general m, w, lhs_contract={1}, rhs_contract={0} : f32[1," + r +
         "]\n  b = sigmoid a : f32[1," + r + "]\n  c = mul a, b : f32[1," + r +
         "]\n  d = dot_general c, v, lhs_contract={1}, rhs_contract={0} : f32[1," + n +
         "]\n  e = sigmoid d : f32[1," + n + "]\n  f = reshape e : f32[" + n +
         "]\n  g = broadcast f, dims={0} : f32[" + n + "," + s + "," + s +
         "]\n  y = mul x, g : f32[" + n + "," + s + "," + s + "]\n} -> (y)";
}

/// M0 to M9: one launch with a barrier for each dependence through memory. Where V4 has more, it is
/// predicted to be quicker.
TEST_F(Souffle, SqueezesAreOneLaunchWithABarrierADependence) {
  constexpr int kModules[][3] = {{32, 112, 8},  {96, 56, 4},   {144, 56, 6},  {144, 28, 6},
                                 {240, 28, 10}, {240, 14, 10}, {480, 14, 20}, {672, 14, 28},
                                 {672, 7, 28},  {1152, 7, 48}};
  for (const auto& [channels, size, reduced] : kModules) {
    SCOPED_TRACE(std::to_string(channels) + " x " + std::to_string(size));
    const std::string text = squeeze_graph(channels, size, reduced);
    const auto global = planned(text, "souffle-v3"), reusing = planned(text, "souffle-v4");
    ASSERT_NE(global, nullptr);
    ASSERT_NE(reusing, nullptr);
    const std::string plan = *print_level(*global, "plan");
    ASSERT_EQ(global->plan.kernels.size(), 1U) << plan;
    const ScheduledKernel& kernel = global->plan.kernels[0].schedule;
    // The second product may be shared by blocks, whose parts are a dependence more.
    const bool parts = kernel.schedule_template.find("over blocks") != std::string::npos;
    EXPECT_EQ(std::ranges::count(kernel.scopes.barriers, Scope::kGrid, &BarrierPoint::scope),
              parts ? 4 : 3)
        << plan;
    EXPECT_LE(totals_of(*reusing).predicted_us, totals_of(*global).predicted_us);
    const auto hits = [](const Compilation& c) {
      int64_t sum = 0;
      for (const PlannedKernel& k : c.plan.kernels)
        sum += reuse_of(k.schedule.program, k.schedule.scopes).hits;
      return sum;
    };
    EXPECT_EQ(hits(*global), 0);
    // Of leaves in one launch each keeps its map.
    const auto kept = planned(text, "subprogram", "leaf,grid");
    ASSERT_NE(kept, nullptr);
    ASSERT_EQ(kept->plan.kernels.size(), 1U);
    EXPECT_EQ(hits(*kept), 1) << *print_level(*kept, "plan");
    const ScheduledKernel& own = kept->plan.kernels[0].schedule;
    EXPECT_EQ(reuse_of(own.program, own.scopes).saved_bytes, int64_t{channels} * size * size * 4);
  }
  CompileOptions options;
  options.planner = "souffle-v3";
  const EmulatedRun run =
      run_and_compare(squeeze_graph(96, 14, 4), *find_target("a100-40gb"), 1e-4, false, options);
  EXPECT_EQ(run.launches.size(), 1U);
}

TEST_F(Souffle, PlansAreReadBackWithTheirStep) {
  for (size_t v = 0; v < plans_.size(); ++v) {
    CompileOptions options;
    options.device = *find_target("a100-40gb");
    options.plan_text = *print_level(step(v), "plan");
    options.stop_after = "plan";
    const auto again = compile_graph(*parse_graph(kGraph), options);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*print_level(**again, "plan"), options.plan_text);
  }
}

}  // namespace
}  // namespace weft::testing
