// Chains of products in one kernel of a GPU, from the graph to the emulator: what is reduced along
// the axis that they share is carried from step to step.

#include <cmath>

#include "schedule/stages/chain_tiling.h"
#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

class GpuChains : public GpuPipeline {
 protected:
  /// One kernel, a chain, equal to the interpreter without races or spills; and the same from the
  /// plan's text.
  static void expect_chain(const std::string& text, double tolerance, const char* device,
                           const std::string& composed = "by chain(", size_t kernels = 1) {
    expect_chain_on(*find_target(device), text, tolerance, composed, kernels);
  }
  /// The same where arithmetic costs nothing, so that memory bounds each product.
  static void expect_bound_chain(const std::string& text, double tolerance, const char* device,
                                 const std::string& composed = "by chain(", size_t kernels = 1) {
    Target target = *find_target(device);
    target.peak_gflops = target.peak_f16_gflops = 1e9;
    expect_chain_on(target, text, tolerance, composed, kernels);
  }
  static void expect_chain_on(const Target& device, const std::string& text, double tolerance,
                              const std::string& composed, size_t kernels) {
    SCOPED_TRACE(device.name + text);
    CompileOptions options;
    options.planner = "chain";
    const EmulatedRun run = run_and_compare(text, device, tolerance, false, options);
    ASSERT_NE(run.compilation, nullptr);
    const std::string plan = *print_level(*run.compilation, "plan");
    EXPECT_EQ(run.launches.size(), kernels) << plan;
    EXPECT_NE(plan.find("by chain("), std::string::npos) << plan;
    EXPECT_THAT(plan, ::testing::HasSubstr(composed));
    expect_no_spills(run, {"sm_80", "sm_86", "sm_90"});
    const auto again = parse_plan(plan, run.compilation->tensors, device);
    ASSERT_TRUE(again.ok()) << again.error().message << plan;
    EXPECT_EQ(print(*again, run.compilation->tensors), plan);
  }
};

std::string sized(std::string text, const std::string& sizes, const std::string& type) {
  std::istringstream in(sizes);
  for (const char* name : {"$B", "$M", "$N", "$K", "$H"}) {
    std::string number;
    in >> number;
    text = replaced(text, name, number);
  }
  return replaced(text, "$T", type);
}

constexpr const char* kAttention = R"(
  (q: $T[$B,$M,$K], k: $T[$B,$N,$K], v: $T[$B,$N,$H], z: f32[$M,$N]) {
    a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : $T[$B,$M,$N]
    w = convert a : f32[$B,$M,$N]
    c = constant 0.125 : f32[]
    cb = broadcast c, dims={} : f32[$B,$M,$N]
    ws = mul w, cb : f32[$B,$M,$N]
    zb = broadcast z, dims={1,2} : f32[$B,$M,$N]
    t = add ws, zb : f32[$B,$M,$N]
    m = reduce t, axes={2}, combiner=max : f32[$B,$M]
    mb = broadcast m, dims={0,1} : f32[$B,$M,$N]
    d = sub t, mb : f32[$B,$M,$N]
    e = exp d : f32[$B,$M,$N]
    s = reduce e, axes={2}, combiner=sum : f32[$B,$M]
    sb = broadcast s, dims={0,1} : f32[$B,$M,$N]
    r = div e, sb : f32[$B,$M,$N]
    p = convert r : $T[$B,$M,$N]
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : $T[$B,$M,$H]
  } -> (y))";

/// A softmax between two products, at even and at odd sizes.
TEST_F(GpuChains, SoftmaxBetweenProducts) {
  for (const char* device : {"a100-40gb", "rtx3080", "h100-sxm"}) {
    for (const char* sizes : {"2 64 128 64 64", "1 37 75 40 24", "3 19 33 80 72"})
      expect_chain(sized(kAttention, sizes, "f16"), 4e-3, device);
  }
  expect_chain(sized(kAttention, "2 50 100 64 64", "bf16"), 3e-2, "a100-40gb");
}

/// On plain cores what one product makes passes through shared memory.
TEST_F(GpuChains, SoftmaxBetweenProductsOfFloat32) {
  for (const char* sizes : {"2 64 128 64 64", "1 37 75 40 24"})
    expect_chain(sized(kAttention, sizes, "f32"), 1e-4, "a100-40gb");
}

/// A long axis and few rows: parts of the axis go to blocks of their own, and are joined behind a
/// barrier of the grid.
TEST_F(GpuChains, PartsOfALongAxisAreJoined) {
  expect_chain(sized(kAttention, "1 19 1030 40 24", "f16"), 4e-3, "rtx3080", " splits ");
  expect_chain(sized(kAttention, "1 35 1530 64 72", "f16"), 4e-3, "a100-40gb", " splits ");
  expect_chain(sized(kAttention, "1 21 515 24 40", "f32"), 1e-4, "h100-sxm", " splits ");
}

/// Rows of which a part, or all, is masked: the maximum of a part is not that of the row. A kernel
/// of its own makes the mask.
TEST_F(GpuChains, PartsJoinWhereRowsAreMasked) {
  const std::string masked =
      replaced(sized(kAttention, "1 19 521 40 24", "f16"), "    t = add ws, zb : f32[1,19,521]\n",
               R"(    near = constant -1.9 : f32[]
    nb = broadcast near, dims={} : f32[1,19,521]
    kept = lt zb, nb : bool[1,19,521]
    inf = constant -inf : f32[]
    ib = broadcast inf, dims={} : f32[1,19,521]
    at = iota axis=2 : i64[1,19,521]
    row = iota axis=1 : i64[1,19,521]
    few = constant 300 : i64[]
    fb = broadcast few, dims={} : i64[1,19,521]
    late = gt at, fb : bool[1,19,521]
    some = and kept, late : bool[1,19,521]
    one = constant 1 : i64[]
    ob = broadcast one, dims={} : i64[1,19,521]
    any = gt row, ob : bool[1,19,521]
    left = and some, any : bool[1,19,521]
    t = select left, ws, ib : f32[1,19,521]
)");
  expect_chain(masked, 4e-3, "a100-40gb", " splits ", 1);
}

/// Scores of which `kept` sees a band, in the place of those with a mask from memory: others are
/// `low`, or have it added.
std::string banded(const std::string& kept, const std::string& sizes, const std::string& type,
                   const std::string& low = "-inf", bool is_added = false) {
  std::string text = replaced(kAttention, "    zb = broadcast z, dims={1,2} : f32[$B,$M,$N]\n",
                              "    i = iota axis=1 : i64[$B,$M,$N]\n"
                              "    j = iota axis=2 : i64[$B,$M,$N]\n" +
                                  kept);
  text = replaced(text, ", z: f32[$M,$N]", "");
  return sized(replaced(text, "t = add ws, zb",
                        "low = constant " + low +
                            " : f32[]\n"
                            "    lows = broadcast low, dims={} : f32[$B,$M,$N]\n" +
                            (is_added ? "    zero = constant 0 : f32[]\n"
                                        "    zeros = broadcast zero, dims={} : f32[$B,$M,$N]\n"
                                        "    z = select keep, zeros, lows : f32[$B,$M,$N]\n"
                                        "    t = add ws, z"
                                      : "    t = select keep, ws, lows")),
               sizes, type);
}

const std::string kCausal = "    keep = le j, i : bool[$B,$M,$N]\n";
const std::string kWindow = R"(    f = constant 40 : i64[]
    fb = broadcast f, dims={} : i64[$B,$M,$N]
    h = sub i, fb : i64[$B,$M,$N]
    c1 = le j, i : bool[$B,$M,$N]
    c2 = gt j, h : bool[$B,$M,$N]
    keep = and c1, c2 : bool[$B,$M,$N]
)";
/// The first forty rows see nothing at all.
const std::string kShifted = R"(    f = constant 40 : i64[]
    fb = broadcast f, dims={} : i64[$B,$M,$N]
    h = sub i, fb : i64[$B,$M,$N]
    keep = le j, h : bool[$B,$M,$N]
)";

/// Loops over the steps go as far as masks let any row of a block reach, also in parts of the axis.
TEST_F(GpuChains, MasksAreBounds) {
  for (const auto& [kept, sizes, device] : {std::tuple(&kCausal, "1 151 151 40 24", "h100-sxm"),
                                            std::tuple(&kShifted, "1 133 133 32 40", "a100-40gb"),
                                            std::tuple(&kWindow, "1 19 1030 40 24", "rtx3080")})
    expect_chain(banded(*kept, sizes, "f16"), 4e-3, device);
  expect_chain(banded(kWindow, "1 133 133 32 40", "f16", "-3.4e38", true), 4e-3, "a100-40gb");
}

/// What is no number beyond a mask makes what is no number, though no step goes there: zero times
/// it is added.
TEST_F(GpuChains, ValuesBeyondMasksAreStillNoNumbers) {
  std::string text = banded(kWindow, "1 133 133 32 40", "f16");
  text = replaced(text, "    y = dot_general p, v,", R"(    n = iota axis=1 : i64[1,133,40]
    far = constant 70 : i64[]
    fars = broadcast far, dims={} : i64[1,133,40]
    is = eq n, fars : bool[1,133,40]
    none = constant nan : f16[]
    nones = broadcast none, dims={} : f16[1,133,40]
    vn = select is, nones, v : f16[1,133,40]
    y = dot_general p, vn,)");
  CompileOptions options;
  options.planner = "chain";
  const EmulatedRun run = run_and_compare(text, *find_target("a100-40gb"), 4e-3, false, options);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_THAT(*print_level(*run.compilation, "tile-program"), ::testing::HasSubstr("_unreached"));
  EXPECT_TRUE(std::isnan(run.outputs[0].at_double(0)));
}

/// A causal mask leaves half of the steps: of the keys half is asked for, and less time is
/// predicted. Of the values all is, since NaN beyond the mask is NaN.
TEST_F(GpuChains, CausalMasksLeaveHalfOfTheSteps) {
  const auto run = [](const std::string& kept) {
    CompileOptions options;
    options.planner = "chain";
    return run_and_compare(banded(kept, "2 512 512 64 64", "f16"), *find_target("a100-40gb"), 4e-3,
                           false, options);
  };
  const EmulatedRun whole = run("    keep = ge j, j : bool[$B,$M,$N]\n"), half = run(kCausal);
  ASSERT_TRUE(whole.launches.size() == 1 && half.launches.size() == 1);
  const auto asked = [](const EmulatedRun& r, const std::string& name) {
    for (const simt::BufferTraffic& b : r.launches[0].report.traffic.buffers) {
      if (b.name == name) return static_cast<double>(b.loads.bytes);
    }
    return 0.0;
  };
  EXPECT_GT(asked(whole, "k"), 0);
  // Each of their blocks, of however many rows.
  const auto blocks = [](const EmulatedRun& r) {
    return static_cast<double>(r.schedule(0).program.blocks.constant());
  };
  EXPECT_LT(asked(half, "k") / blocks(half), 0.65 * asked(whole, "k") / blocks(whole));
  const auto predicted = [](const std::string& kept) {
    CompileOptions options;
    options.device = *find_target("a100-40gb");
    auto graph = parse_graph(banded(kept, "32 2048 2048 64 64", "f16"));
    EXPECT_TRUE(graph.ok());
    const auto compiled = compile_graph(std::move(*graph), options);
    EXPECT_TRUE(compiled.ok() && (*compiled)->plan.kernels.size() == 1);
    return (*compiled)->plan.kernels[0].schedule.estimate.microseconds;
  };
  EXPECT_LT(predicted(kCausal), 0.7 * predicted("    keep = ge j, j : bool[$B,$M,$N]\n"));
}

constexpr const char* kLogSum = R"(
  (x: $T[$M,$K], w: $T[$K,$N]) {
    a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : $T[$M,$N]
    t = convert a : f32[$M,$N]
    m = reduce t, axes={1}, combiner=max : f32[$M]
    mb = broadcast m, dims={0} : f32[$M,$N]
    d = sub t, mb : f32[$M,$N]
    e = exp d : f32[$M,$N]
    s = reduce e, axes={1}, combiner=sum : f32[$M]
    l = log s : f32[$M]
    y = add l, m : f32[$M]
  } -> (y))";

/// A logarithm of a sum of exponentials behind one product: no column of it is stored.
TEST_F(GpuChains, RowsOfOneProductAreReduced) {
  for (const char* device : {"a100-40gb", "rtx3080", "h100-sxm"}) {
    for (const char* sizes : {"1 37 203 40 1", "1 71 333 136 1"})
      expect_bound_chain(sized(kLogSum, sizes, "f16"), 4e-3, device);
  }
  expect_bound_chain(sized(kLogSum, "1 37 203 40 1", "f32"), 1e-4, "a100-40gb");
}

TEST_F(GpuChains, PartsOfRowsAreJoined) {
  expect_bound_chain(sized(kLogSum, "1 19 1030 40 1", "f16"), 4e-3, "rtx3080", " splits ");
  expect_bound_chain(sized(kLogSum, "1 37 1500 72 1", "f16"), 4e-3, "h100-sxm", " splits ");
  expect_bound_chain(sized(kLogSum, "1 21 1028 24 1", "f32"), 1e-4, "a100-40gb", " splits ");
  expect_bound_chain(sized(kLogSum, "1 13 9001 24 1", "f16"), 4e-3, "a100-40gb", " splits 141");
}

/// The best of each row of a product, where it is and what that brings. `$R` picks the last of
/// equals, of which there are many: terms are sums of products of small integers.
constexpr const char* kBest = R"(
  (x: $T[$M,$K], w: $T[$K,$N], u: f32[$N,$H]) {
    xr = round_even x : $T[$M,$K]
    wr = round_even w : $T[$K,$N]
    a = dot_general xr, wr, lhs_contract={1}, rhs_contract={0} : $T[$M,$N]
    t = convert a : f32[$M,$N]
    m = reduce t, axes={1}, combiner=$C : f32[$M]
    i = arg_reduce t, axis=1, combiner=arg_$C$R : i64[$M]
    o = gather u, i, axis=0 : f32[$M,$H]
    mb = broadcast m, dims={0} : f32[$M,$H]
    y = mul mb, o : f32[$M,$H]
  } -> (y, i))";

std::string best(const std::string& combiner, bool last, const std::string& sizes,
                 const std::string& type) {
  const std::string text =
      replaced(replaced(kBest, "$C", combiner), "$R", last ? ", last_on_ties=true" : "");
  return sized(text, sizes, type);
}

/// What stands at the position is read by another kernel, as one before rounds the inputs.
TEST_F(GpuChains, PositionsBehindAProduct) {
  for (const char* device : {"a100-40gb", "rtx3080", "h100-sxm"}) {
    expect_bound_chain(best("max", false, "1 37 203 40 9", "f16"), 1e-4, device, "by chain(", 2);
    expect_bound_chain(best("min", true, "1 19 141 72 5", "f16"), 1e-4, device, "by chain(", 2);
  }
  expect_bound_chain(best("max", true, "1 37 203 40 9", "f32"), 1e-4, "a100-40gb", "by chain(", 2);
}

/// Of parts whose best is alike, too, and where that is no number.
TEST_F(GpuChains, PositionsOfParts) {
  const std::string rows = R"(    at = iota axis=0 : i64[19,40]
    three = constant 3 : i64[]
    tb = broadcast three, dims={} : i64[19,40]
    is = eq at, tb : bool[19,40]
    none = constant nan : f16[]
    nones = broadcast none, dims={} : f16[19,40]
    xn = select is, nones, x : f16[19,40]
    xr = round_even xn : f16[19,40]
)";
  for (const char* device : {"a100-40gb", "h100-sxm"}) {
    for (const bool last : {false, true}) {
      const std::string text = best("max", last, "1 19 1030 40 9", "f16");
      expect_bound_chain(replaced(text, "    xr = round_even x : f16[19,40]\n", rows), 1e-4, device,
                         " splits ", 2);
    }
  }
  expect_bound_chain(best("min", false, "1 21 1028 32 9", "f32"), 1e-4, "rtx3080", " splits ", 2);
}

constexpr const char* kProducts = R"(
  (x: $T[$M,$K], w: $T[$K,$N], u: $T[$N,$H], b: $T[$H]) {
    a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : $T[$M,$N]
    r = tanh a : $T[$M,$N]
    c = dot_general r, u, lhs_contract={1}, rhs_contract={0} : $T[$M,$H]
    bb = broadcast b, dims={1} : $T[$M,$H]
    y = add c, bb : $T[$M,$H]
  } -> (y))";

/// Two products with a function between them; deep ones go through their depth in steps.
TEST_F(GpuChains, ProductsWithAFunctionBetween) {
  for (const char* sizes :
       {"1 64 64 64 64", "1 45 75 16 24", "1 33 40 300 50", "1 64 64 256 320"}) {
    expect_chain(sized(kProducts, sizes, "f16"), 2e-2, "a100-40gb");
  }
  expect_chain(sized(kProducts, "1 45 75 200 24", "f32"), 1e-4, "rtx3080");
}

/// What the rows multiply does not change with the steps: a block loads it before them, and stores
/// its results behind them. A loop through the depth that has one iteration is none.
TEST_F(GpuChains, LoadsAndStoresStandOutsideOfTheStepsThatDoNotChangeThem) {
  std::string whole;
  for (const auto& [depth, times] : {std::pair(0, 1), std::pair(32, 1), std::pair(16, 8)}) {
    SCOPED_TRACE(depth);
    CompileOptions options;
    options.plan_text =
        "plan chain {\n  kernel k compute \"chain on fragments of 1 warps\" by chain(v5: d0 16 "
        "carrying v2 r0 32) { leaf(fragments warps 1 left_in_block false" +
        (depth > 0 ? " depth " + std::to_string(depth) : "") +
        ") v0 v1 v2 v3 v4 v5 }: a, r, c, y -> y\n}\n";
    options.plan_source = "chain.plan";
    const EmulatedRun run = run_and_compare(sized(kProducts, "1 48 256 32 64", "f16"),
                                            *find_target("a100-40gb"), 2e-2, false, options);
    ASSERT_EQ(run.launches.size(), 1U);
    for (const simt::BufferTraffic& b : run.launches[0].report.traffic.buffers) {
      if (b.name == "x") EXPECT_EQ(b.loads.bytes, times * 2 * 48 * 32);
      if (b.name == "y") EXPECT_EQ(b.stores.bytes, 2 * 48 * 64);
    }
    const std::string program = *print_level(*run.compilation, "tile-program");
    if (depth == 0) whole = program;
    EXPECT_EQ(program == whole, times == 1);
  }
}

/// The tiling expression that a composition stands for is read off the loops that it was built to,
/// and names the loops that are bound to blocks.
TEST_F(GpuChains, TilingExpressionsAreReadOffTheLoops) {
  struct Case {
    const char *partition, *choice, *tiling;
    std::vector<int> bound;
  };
  for (const auto& [partition, choice, tiling, bound] :
       {Case{"d0 16, d1 32", " depth 16", "mhnk", {0, 3}}, Case{"d0 16", " depth 16", "mnk", {0}},
        Case{"d0 16, d1 32", "", "mhn", {0, 3}}, Case{"d0 16", "", "mn", {0}},
        Case{"d0 48", " depth 16", "nk", {}}}) {
    SCOPED_TRACE(tiling);
    CompileOptions options;
    options.device = *find_target("a100-40gb");
    options.stop_after = "plan";
    options.plan_text =
        std::string(
            "plan chain {\n  kernel k compute \"chain on fragments of 1 warps\" by chain(v5: ") +
        partition + " carrying v2 r0 32) { leaf(fragments warps 1" + choice +
        ") v0 v1 v2 v3 v4 v5 }: a, r, c, y -> y\n}\n";
    options.plan_source = "chain.plan";
    auto graph = parse_graph(sized(kProducts, "1 48 256 32 64", "f16"));
    ASSERT_TRUE(graph.ok());
    const auto compiled = compile_graph(*graph, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    const PlannedKernel& kernel = (*compiled)->plan.kernels[0];
    const auto read =
        tiling_of((*compiled)->tensors, kernel.group, kernel.schedule, (*compiled)->target);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(print(*read), tiling);
    // With the loops of one iteration, which stand anywhere, inside.
    std::string whole = tiling;
    for (const char loop : std::string("mknh")) {
      if (whole.find(loop) == std::string::npos) whole += loop;
    }
    const ContractionChain chain{{48, 32, 256, 64}, 1, 2};
    const auto expression = parse_tiling(whole, chain);
    ASSERT_TRUE(expression.ok()) << expression.error().message;
    for (const int loop : bound)
      EXPECT_THAT(block_loops(*expression, chain).bound, ::testing::Contains(loop));
  }
}

/// Without what corrects them, parts add up.
TEST_F(GpuChains, PartsOfProductsAddUp) {
  expect_chain(sized(kProducts, "1 33 1030 40 50", "f16"), 4e-2, "h100-sxm", " splits ");
  expect_chain(sized(kProducts, "1 37 1040 96 200", "f16"), 4e-2, "a100-40gb", " splits ");
  expect_chain(sized(kProducts, "1 21 515 30 40", "f32"), 2e-4, "rtx3080", " splits ");
}

constexpr const char* kThree = R"(
  (x: $T[$M,$K], w: $T[$K,$B], u: $T[$B,$N], v: $T[$N,$H]) {
    a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : $T[$M,$B]
    s = constant 0.0625 : $T[]
    sa = broadcast s, dims={} : $T[$M,$B]
    t = max a, sa : $T[$M,$B]
    c = dot_general t, u, lhs_contract={1}, rhs_contract={0} : $T[$M,$N]
    sc = broadcast s, dims={} : $T[$M,$N]
    r = min c, sc : $T[$M,$N]
    y = dot_general r, v, lhs_contract={1}, rhs_contract={0} : $T[$M,$H]
  } -> (y))";

std::string with_a_fourth(std::string text) {
  text = replaced(text, "v: $T[$N,$H])", "v: $T[$N,$H], z: $T[$H,40])");
  return replaced(text, "  } -> (y)",
                  "    o = dot_general y, z, lhs_contract={1}, rhs_contract={0} : $T[$M,40]\n"
                  "  } -> (o)");
}

/// Products before the loop and behind it: blocks have all of what these reduce, in registers.
TEST_F(GpuChains, ThreeAndFourProducts) {
  expect_chain(sized(kThree, "24 37 203 40 50", "f16"), 4e-2, "a100-40gb");
  for (const auto& [text, members, type] :
       {std::tuple(std::string(kThree), "v6 v0 v1 v2 v3 v4 v5 v6: a, t, c, r, y -> y", "f32"),
        std::tuple(with_a_fourth(kThree), "v7 v0 v1 v2 v3 v4 v5 v6 v7: a, t, c, r, y, o -> o",
                   "f16")}) {
    const std::string list = members;
    CompileOptions options;
    options.plan_text =
        "plan chain {\n  kernel k compute \"chain on fragments of 1 warps\" by chain(" +
        list.substr(0, 2) + ": d0 16 carrying v4 r0 32) { leaf(fragments warps 1) " +
        replaced(list.substr(3), ":", " }:") + "\n}\n";
    options.plan_source = "chain.plan";
    const EmulatedRun run = run_and_compare(sized(text, "48 50 301 32 64", type),
                                            *find_target("h100-sxm"), 2e-2, false, options);
    EXPECT_EQ(run.launches.size(), 1U);
  }
}

/// A plan's text that names parts which are none is refused with the reason.
TEST_F(GpuChains, RefusesPartsThatAreNone) {
  CompileOptions options;
  options.planner = "chain";
  options.device = *find_target("a100-40gb");
  const auto graph = parse_graph(sized(kProducts, "1 33 1030 40 50", "f16"));
  ASSERT_TRUE(graph.ok());
  const auto compiled = compile_graph(*graph, options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  const std::string plan = *print_level(**compiled, "plan");
  const size_t at = plan.find(" splits ");
  ASSERT_NE(at, std::string::npos) << plan;
  const size_t end = plan.find(')', at);
  for (const auto& [splits, why] : {std::pair("64", "do not fall into 64 parts"),
                                    std::pair("1000", "into 256 parts at most")}) {
    std::string other = plan;
    other.replace(at, end - at, std::string(" splits ") + splits);
    const auto parsed = parse_plan(other, (*compiled)->tensors, *options.device);
    ASSERT_FALSE(parsed.ok()) << splits;
    EXPECT_THAT(parsed.error().message, ::testing::HasSubstr(why));
  }
}

/// Each element of an input is read from memory, each of a result written once; nothing meets in
/// the banks of shared memory.
TEST_F(GpuChains, MoveCompulsoryBytesWithoutBankConflicts) {
  for (const auto& [text, sizes, elements] :
       {std::tuple(kAttention, "2 64 128 64 64", 2 * (64 * 64 + 2 * 128 * 64)),
        std::tuple(kAttention, "1 48 96 80 80", 48 * 80 + 2 * 96 * 80),
        std::tuple(kProducts, "1 128 64 32 64", 128 * 32 + 32 * 64 + 64 * 64 + 64)}) {
    SCOPED_TRACE(sizes);
    CompileOptions options;
    options.planner = "chain";
    // A mask is float32.
    const int64_t mask = text == kAttention ? (sizes[0] == '2' ? 64 * 128 : 48 * 96) * 4 : 0;
    const EmulatedRun run =
        run_and_compare(sized(text, sizes, "f16"), *find_target("a100-40gb"), 2e-2, false, options);
    ASSERT_EQ(run.launches.size(), 1U);
    const simt::Traffic& traffic = run.launches[0].report.traffic;
    EXPECT_EQ(traffic.loads.unique_bytes, 2 * elements + mask);
    EXPECT_TRUE(traffic.bank_conflicts.empty()) << simt::print(run.launches[0].report);
    EXPECT_GT(traffic.shared.wavefronts, 0);
  }
}

/// A deep chain whose rows are few stays one kernel, since memory bounds its products; `auto` asks
/// the prediction.
TEST_F(GpuChains, MemoryBoundChainsAreOneKernelWhateverIsPredicted) {
  const std::string text = sized(kProducts, "1 512 512 1024 256", "f16");
  for (const auto& [planner, kernels] : {std::pair("chain", 1U), std::pair("greedy", 2U)}) {
    CompileOptions options;
    options.planner = planner;
    options.device = *find_target("a100-40gb");
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok());
    auto compiled = compile_graph(*graph, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_EQ((*compiled)->plan.kernels.size(), kernels) << planner;
    if (kernels > 1) continue;
    EXPECT_THAT(*print_level(**compiled, "plan"), ::testing::HasSubstr("operations a byte, where"));
  }
}

}  // namespace
}  // namespace weft::testing
