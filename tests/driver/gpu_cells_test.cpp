// Cells of recurrences at odd sizes, all of whose steps run in one launch each: equal to the
// interpreter, without races and spills.

#include <vector>

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

class GpuCells : public GpuPipeline {
 protected:
  /// So many scans are left, each of which runs in one launch.
  static EmulatedRun expect_in_one_launch(std::string text, size_t loops) {
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"$T", "31"}, {"$B", "3"}, {"$H", "21"}, {"$G", "84"}, {"$R", "63"}, {"$P", "10"}})
      text = replaced(std::move(text), name, value);
    CompileOptions options;
    options.planner = "subprogram";
    EmulatedRun run = run_and_compare(text, *find_target("a100-40gb"), 1e-4, false, options);
    if (run.compilation == nullptr) return run;
    const FusionPlan& plan = run.compilation->plan;
    const std::string printed = expect_plan_from_text(*run.compilation);
    EXPECT_EQ(plan.regions.size(), loops) << printed;
    size_t whole = 0;  // alone, or beside what stands around them
    for (const PlannedKernel& kernel : plan.kernels) whole += kernel.loops.size();
    for (const RegionPlans& regions : plan.regions) whole += runs_whole_loop(regions) ? 1 : 0;
    EXPECT_EQ(whole, loops) << printed;
    expect_no_spills(run);
    return run;
  }
};

/// Four gates of a product, and what is made of them. Products are scaled so that a step does not
/// enlarge what rounding left of the step before.
constexpr const char* kGates = R"(
    k0 = constant 0.125 : f32[]
    p0 = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[$B,$G]
    pk = broadcast k0, dims={} : f32[$B,$G]
    p = mul p0, pk : f32[$B,$G]
    a = add p, x : f32[$B,$G]
    i0 = slice a, start={0,0}, step={1,1} : f32[$B,$H]
    f0 = slice a, start={0,21}, step={1,1} : f32[$B,$H]
    g0 = slice a, start={0,42}, step={1,1} : f32[$B,$H]
    o0 = slice a, start={0,63}, step={1,1} : f32[$B,$H]
    i = sigmoid i0 : f32[$B,$H]
    f = sigmoid f0 : f32[$B,$H]
    g = tanh g0 : f32[$B,$H]
    o = sigmoid o0 : f32[$B,$H]
    fc = mul f, c : f32[$B,$H]
    ig = mul i, g : f32[$B,$H]
    d = add fc, ig : f32[$B,$H]
    t = tanh d : f32[$B,$H]
    m = mul o, t : f32[$B,$H]
)";
std::string lstm(const std::string& operands, const std::string& reversed) {
  return "scan " + operands + ", carry_count=2, scanned_count=1, x_reverse={" + reversed +
         "}, y_reverse={" + reversed + "} : f32[$B,$H], f32[$B,$H], f32[$T,$B,$H]\n" +
         "  region (h: f32[$B,$H], c: f32[$B,$H], x: f32[$B,$G], w: f32[$H,$G]) {" + kGates +
         "  } -> (m, d, y=m)\n";
}
constexpr const char* kInputs = "(h0: f32[$B,$H], c0: f32[$B,$H], xs: f32[$T,$B,$G], w: f32[$H,$G]";

TEST_F(GpuCells, FourGates) {
  expect_in_one_launch(kInputs + std::string(") {\n  h, c, y = ") + lstm("h0, c0, xs, w", "false") +
                           "} -> (h, c, y)",
                       1);
}

/// Two directions are one loop, each of whose steps has both products.
TEST_F(GpuCells, BothDirections) {
  const EmulatedRun run = expect_in_one_launch(
      kInputs + std::string(", v: f32[$H,$G]) {\n  h, c, y = ") + lstm("h0, c0, xs, w", "false") +
          "  g, d, z = " + lstm("c0, h0, xs, v", "true") +
          "  s = concat y, z, axis=2 : f32[$T,$B,42]\n} -> (s, h, d)",
      1);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_TRUE(run.compilation->plan.united);
}

/// A layer above another, with a product between.
TEST_F(GpuCells, Layers) {
  expect_in_one_launch(
      replaced(kInputs + std::string(", u: f32[$H,$G], v: f32[$H,$G]) {\n  h, c, y = ") +
                   lstm("h0, c0, xs, w", "false") +
                   "  q = dot_general y, u, lhs_contract={2}, rhs_contract={0} : f32[$T,$B,$G]\n"
                   "  g, d, z = " +
                   lstm("h0, c0, q, v", "false") + "} -> (z, c, d)",
               "$T", "17"),
      1);
}

/// What is carried is a projection of what the gates make.
TEST_F(GpuCells, Projections) {
  std::string gates = replaced(kGates, "dot_general h,", "dot_general r,");
  expect_in_one_launch(
      "(r0: f32[$B,$P], c0: f32[$B,$H], xs: f32[$T,$B,$G], w: f32[$P,$G], v: f32[$H,$P]) {\n"
      "  r, c, y = scan r0, c0, xs, w, v, carry_count=2, scanned_count=1, x_reverse={false}, "
      "y_reverse={false} : f32[$B,$P], f32[$B,$H], f32[$T,$B,$P]\n"
      "  region (r: f32[$B,$P], c: f32[$B,$H], x: f32[$B,$G], w: f32[$P,$G], v: f32[$H,$P]) {" +
          gates +
          "    n = dot_general m, v, lhs_contract={1}, rhs_contract={0} : f32[$B,$P]\n"
          "  } -> (n, d, y=n)\n} -> (r, c, y)",
      1);
}

/// Three gates, of which one scales what another reads of the product.
TEST_F(GpuCells, ThreeGates) {
  expect_in_one_launch(R"(
(h0: f32[$B,$H], xs: f32[$T,$B,$R], w: f32[$H,$R]) {
  h, y = scan h0, xs, w, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[$B,$H], f32[$T,$B,$H]
  region (h: f32[$B,$H], x: f32[$B,$R], w: f32[$H,$R]) {
    k0 = constant 0.125 : f32[]
    p0 = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[$B,$R]
    pk = broadcast k0, dims={} : f32[$B,$R]
    p = mul p0, pk : f32[$B,$R]
    pz = slice p, start={0,0}, step={1,1} : f32[$B,$H]
    pr = slice p, start={0,21}, step={1,1} : f32[$B,$H]
    pn = slice p, start={0,42}, step={1,1} : f32[$B,$H]
    xz = slice x, start={0,0}, step={1,1} : f32[$B,$H]
    xr = slice x, start={0,21}, step={1,1} : f32[$B,$H]
    xn = slice x, start={0,42}, step={1,1} : f32[$B,$H]
    az = add pz, xz : f32[$B,$H]
    ar = add pr, xr : f32[$B,$H]
    z = sigmoid az : f32[$B,$H]
    r = sigmoid ar : f32[$B,$H]
    rn = mul r, pn : f32[$B,$H]
    an = add rn, xn : f32[$B,$H]
    n = tanh an : f32[$B,$H]
    e = sub h, n : f32[$B,$H]
    ze = mul z, e : f32[$B,$H]
    m = add n, ze : f32[$B,$H]
  } -> (m, y=m)
} -> (h, y))",
                       1);
}

/// What is carried asks for a weighted mean of a memory that stays the same.
TEST_F(GpuCells, AttentionInAStep) {
  expect_in_one_launch(R"(
(h0: f32[$B,$H], xs: f32[$T,$B,$H], k: f32[$B,17,$H], w: f32[$H,$H]) {
  h, y = scan h0, xs, k, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[$B,$H], f32[$T,$B,17]
  region (h: f32[$B,$H], x: f32[$B,$H], k: f32[$B,17,$H], w: f32[$H,$H]) {
    k0 = constant 0.125 : f32[]
    s0 = dot_general h, k, lhs_batch={0}, rhs_batch={0}, lhs_contract={1}, rhs_contract={2} : f32[$B,17]
    sk = broadcast k0, dims={} : f32[$B,17]
    s = mul s0, sk : f32[$B,17]
    m = reduce s, axes={1}, combiner=max : f32[$B]
    mb = broadcast m, dims={0} : f32[$B,17]
    d = sub s, mb : f32[$B,17]
    e = exp d : f32[$B,17]
    z = reduce e, axes={1}, combiner=sum : f32[$B]
    zb = broadcast z, dims={0} : f32[$B,17]
    a = div e, zb : f32[$B,17]
    c = dot_general a, k, lhs_batch={0}, rhs_batch={0}, lhs_contract={1}, rhs_contract={1} : f32[$B,$H]
    p0 = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[$B,$H]
    pk = broadcast k0, dims={} : f32[$B,$H]
    p = mul p0, pk : f32[$B,$H]
    q = add p, c : f32[$B,$H]
    r = add q, x : f32[$B,$H]
    n = tanh r : f32[$B,$H]
  } -> (n, y=a)
} -> (h, y))",
                       1);
}

}  // namespace
}  // namespace weft::testing
