// Products on matrix units, from the graph to the emulator: every tail, both orders of both
// operands, batches, convolutions, what is computed on the way in and out.

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

class MatrixUnits : public GpuPipeline {};

/// `text` with the numbers in place of M, N, K.
std::string sized(std::string text, const std::string& sizes) {
  std::istringstream in(sizes);
  for (const char* name : {"$M", "$N", "$K"}) {
    std::string size;
    in >> size;
    text = replaced(std::move(text), name, size);
  }
  return text;
}

/// As leaves: blocks of stages take the place of products that take less than a launch.
void expect_on_units(const std::string& text, double tolerance) {
  CompileOptions options;
  options.compositions = "leaf";
  const auto c =
      run_and_compare(text, *find_target("h100-sxm"), tolerance, false, options).compilation;
  ASSERT_NE(c, nullptr);
  EXPECT_THAT(*print_level(*c, "tile-program"),
              ::testing::AnyOf(::testing::HasSubstr("by mma_"), ::testing::HasSubstr("by wgmma_")))
      << text;
}

TEST_F(MatrixUnits, ProductsWithAnEpilogue) {
  for (const char* type : {"f16", "bf16"}) {
    for (const char* sizes : {"64 80 96", "37 46 50", "17 9 16", "130 70 200"}) {
      const std::string text = sized(R"(
        (a: T[$M,$K], b: T[$K,$N], c: T[$N], r: T[$M,$N]) {
          p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M,$N]
          d = broadcast c, dims={1} : T[$M,$N]
          q = add p, d : T[$M,$N]
          t = tanh q : T[$M,$N]
          y = add t, r : T[$M,$N]
        } -> (y))",
                                     sizes);
      expect_on_units(replaced(text, "T[", type + std::string("[")),
                      type == std::string("f16") ? 4e-3 : 3e-2);
    }
  }
}

/// Rows, columns and depth in either order of either operand, several of each, a batch before them.
TEST_F(MatrixUnits, OperandsInAnyOrder) {
  const std::map<std::string, std::string> forms = {
      {"NT",
       "(a: f16[$M,$K], b: f16[$N,$K]) { y = dot_general a, b, lhs_contract={1}, "
       "rhs_contract={1} : f16[$M,$N] } -> (y)"},
      {"TN",
       "(a: f16[$K,$M], b: f16[$K,$N]) { y = dot_general a, b, lhs_contract={0}, "
       "rhs_contract={0} : f16[$M,$N] } -> (y)"},
      {"TT",
       "(a: f16[$K,$M], b: f16[$N,$K]) { y = dot_general a, b, lhs_contract={0}, "
       "rhs_contract={1} : f16[$M,$N] } -> (y)"},
      {"batched",
       "(a: f16[3,$M,$K], b: f16[3,$N,$K]) { y = dot_general a, b, lhs_contract={2}, "
       "rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f16[3,$M,$N] } -> (y)"},
      {"heads",
       "(a: f16[2,$M,3,$K], b: f16[2,$N,3,$K]) { y = dot_general a, b, lhs_contract={3}, "
       "rhs_contract={3}, lhs_batch={0,2}, rhs_batch={0,2} : f16[2,3,$M,$N] } -> (y)"},
      {"two depths",
       "(a: f16[$M,5,$K], b: f16[5,$K,$N]) { y = dot_general a, b, "
       "lhs_contract={1,2}, rhs_contract={0,1} : f16[$M,$N] } -> (y)"},
  };
  for (const auto& [name, text] : forms) {
    for (const char* sizes : {"32 48 64", "21 35 17", "40 24 136"}) {
      SCOPED_TRACE(name + " " + sizes);
      expect_on_units(sized(text, sizes), 4e-3);
    }
  }
}

TEST_F(MatrixUnits, ConvolutionsAsProducts) {
  const std::map<std::string, std::string> forms = {
      {"strides={1,1}, low={1,1}, high={1,1}", "[2,24,9,11]"},
      {"strides={2,2}, low={1,0}, high={1,0}", "[2,24,5,5]"},
      {"strides={1,1}, low={0,0}, high={0,0}", "[2,24,7,9]"}};
  for (const auto& [attributes, shape] : forms) {
    std::string text = R"(
      (x: f16[2,20,9,11], w: f16[24,20,3,3], b: f16[24]) {
        c = convolution x, w, ATTRIBUTES, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f16SHAPE
        d = broadcast b, dims={1} : f16SHAPE
        e = add c, d : f16SHAPE
        y = tanh e : f16SHAPE
      } -> (y))";
    SCOPED_TRACE(attributes);
    expect_on_units(replaced(replaced(text, "ATTRIBUTES", attributes), "SHAPE", shape), 6e-3);
  }
}

/// Few results of a long sum: several blocks share it, and their order is always the same.
TEST_F(MatrixUnits, LongSumsAreSharedByBlocks) {
  for (const char* sizes : {"32 64 4096", "37 18 2500", "16 8 3001"}) {
    const auto c = expect_same(sized(R"(
      (a: f16[$M,$K], b: f16[$K,$N], c: f16[$N]) {
        p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[$M,$N]
        d = broadcast c, dims={1} : f16[$M,$N]
        y = add p, d : f16[$M,$N]
      } -> (y))",
                                     sizes),
                               4e-3);
    ASSERT_NE(c, nullptr);
    EXPECT_THAT(c->plan.kernels[0].schedule.schedule_template, ::testing::HasSubstr("depth over"));
  }
}

/// Only --fast-math rounds the operands of a float32 product, and says so.
TEST_F(MatrixUnits, Float32OnlyWhenAllowed) {
  for (const char* form : {"(a: f32[$M,$K], b: f32[$K,$N]) { y = dot_general a, b, "
                           "lhs_contract={1}, rhs_contract={0} : f32[$M,$N] } -> (y)",
                           "(a: f32[$K,$M], b: f32[$N,$K]) { y = dot_general a, b, "
                           "lhs_contract={0}, rhs_contract={1} : f32[$M,$N] } -> (y)"}) {
    for (const char* sizes : {"32 48 64", "37 45 51"}) {
      const std::string text = sized(form, sizes);
      SCOPED_TRACE(text);
      const auto fast = expect_same(text, 2e-2, true), exact = planned(text);
      ASSERT_TRUE(fast != nullptr && exact != nullptr);
      EXPECT_THAT(*print_level(*fast, "tile-program"), ::testing::HasSubstr("mma_m16n8k8"));
      EXPECT_THAT(fast->substitutions,
                  ::testing::Contains(::testing::HasSubstr("rounded to tf32")));
      EXPECT_THAT(*print_level(*exact, "tile-program"),
                  ::testing::Not(::testing::HasSubstr("mma_")));
    }
  }
}

/// On plain cores: tiles in shared memory loaded ahead, in any order, of convolutions too.
TEST_F(MatrixUnits, Float32OnPlainCores) {
  const std::map<std::string, std::string> forms = {
      {"NN",
       "(a: f32[$M,$K], b: f32[$K,$N]) { y = dot_general a, b, lhs_contract={1}, "
       "rhs_contract={0} : f32[$M,$N] } -> (y)"},
      {"TT",
       "(a: f32[$K,$M], b: f32[$N,$K]) { y = dot_general a, b, lhs_contract={0}, "
       "rhs_contract={1} : f32[$M,$N] } -> (y)"},
      {"convolution",
       "(x: f32[2,5,9,11], w: f32[24,5,3,3]) { y = convolution x, w, strides={1,1}, low={1,1}, "
       "high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[2,24,9,11] } -> (y)"}};
  for (const auto& [name, text] : forms) {
    for (const char* sizes : {"32 64 48", "37 45 51"}) {
      SCOPED_TRACE(name + " " + sizes);
      const auto c = expect_same(sized(text, sizes), 1e-4);
      ASSERT_NE(c, nullptr);
      EXPECT_THAT(c->plan.kernels[0].schedule.schedule_template, ::testing::HasSubstr("on cores"));
    }
  }
}

/// What is computed of an operand on its way to the units passes through registers.
TEST_F(MatrixUnits, ComputeOnTheWayIn) {
  for (const char* sizes : {"48 64 96", "19 27 45"}) {
    expect_on_units(sized(R"(
      (a: f16[$M,$K], s: f16[$K], b: f16[$K,$N]) {
        t = broadcast s, dims={1} : f16[$M,$K]
        u = mul a, t : f16[$M,$K]
        y = dot_general u, b, lhs_contract={1}, rhs_contract={0} : f16[$M,$N]
      } -> (y))",
                          sizes),
                    4e-3);
  }
}

/// Too few rows for tiles: what is computed of a factor is computed once for a tile in shared
/// memory.
TEST_F(MatrixUnits, FewRowsThroughSharedTiles) {
  CompileOptions options;
  options.compositions = "leaf";
  for (const char* sizes : {"6 100 96", "5 37 45"}) {
    const std::string text = sized(R"(
      (a: f32[$M,$K], s: f32[$K], b: f32[$N,$K]) {
        t = broadcast s, dims={1} : f32[$N,$K]
        u = mul b, t : f32[$N,$K]
        y = dot_general a, u, lhs_contract={1}, rhs_contract={1} : f32[$M,$N]
      } -> (y))",
                                   sizes);
    const auto c =
        run_and_compare(text, *find_target("h100-sxm"), 1e-4, false, options).compilation;
    ASSERT_NE(c, nullptr);
    EXPECT_THAT(c->plan.kernels.back().schedule.schedule_template,
                ::testing::HasSubstr("in shared tiles"));
  }
}

/// Out of panels in shared memory, by groups of four warps: rows of tiles along the depth and
/// across it, tails of all three, products under way and not, parts of the depth.
TEST_F(MatrixUnits, WarpGroups) {
  struct Tile {
    std::string choice, made;
  };
  const std::vector<Tile> tiles = {
      {"m 64 n 64 k 64 warps_m 4 stages 3", "64x64x64, 3 stages, 1 warp groups, 49152 B shared"},
      {"m 64 n 192 k 64 warps_m 4 stages 4", "64x192x64, 4 stages, 1 warp groups, 131072 B shared"},
      {"m 128 n 128 k 64 warps_m 8 stages 4",
       "128x128x64, 4 stages, 2 warp groups, 131072 B shared"},
      {"m 64 n 64 k 64 warps_m 4 stages 2 splits 2",
       "64x64x64, 2 stages, 1 warp groups, 32768 B shared, depth over 2 blocks"}};
  const std::vector<std::string> forms = {
      "(a: f16[$M,$K], b: f16[$K,$N]) { y = dot_general a, b, lhs_contract={1}, "
      "rhs_contract={0} : f16[$M,$N] } -> (y)",
      "(a: bf16[$M,$K], b: bf16[$N,$K]) { y = dot_general a, b, lhs_contract={1}, "
      "rhs_contract={1} : bf16[$M,$N] } -> (y)",
      "(a: f16[$K,$M], b: f16[$K,$N]) { y = dot_general a, b, lhs_contract={0}, "
      "rhs_contract={0} : f16[$M,$N] } -> (y)"};
  // Columns that do not fill panels, where the right operand lies along the depth.
  const Tile narrow = {"m 128 n 96 k 64 warps_m 8 stages 3",
                       "128x96x64, 3 stages, 2 warp groups, 86016 B shared"};
  std::vector<std::pair<Tile, std::string>> cases = {{narrow, forms[1]}};
  for (const Tile& tile : tiles) {
    for (const std::string& form : forms) cases.emplace_back(tile, form);
  }
  for (const auto& [tile, form] : cases) {
    CompileOptions options;
    options.plan_text = "plan auto {\n  kernel k0_y compute \"contract on matrix units " +
                        tile.made + "\" by leaf(tiles " + tile.choice +
                        " groups true): y -> y\n}\n";
    const EmulatedRun run =
        run_and_compare(sized(form, "136 200 264"), *find_target("h100-sxm"), 3e-2, false, options);
    ASSERT_NE(run.compilation, nullptr) << tile.made;
    EXPECT_THAT(run.code(), ::testing::HasSubstr("wf_group_multiply"));
    expect_no_spills(run, {"sm_90"});
  }
}

}  // namespace
}  // namespace weft::testing
