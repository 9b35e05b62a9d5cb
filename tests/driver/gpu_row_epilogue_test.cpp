// Reductions of a product's results in the kernel of the product: layer norm, softmax, positions,
// and a convolution's channels, where a tile holds what they run over or the parts of a shared
// depth are combined.

#include "lower/lower.h"
#include "tests/driver/gpu_pipeline.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/scope_analysis.h"

namespace weft::testing {
namespace {

/// A product in one of the ways in which they are computed.
struct Case {
  std::string type, sizes;
  bool fast_math = false;  ///< float32 through the units
};

double tolerance(const Case& c) {
  if (c.type == "f16") return 6e-3;
  return c.type == "bf16" || c.fast_math ? 5e-2 : 2e-4;
}

std::string filled(std::string text, const Case& c) {
  std::istringstream in(c.sizes);
  for (const char* name : {"$M", "$N", "$K"}) {
    std::string size;
    in >> size;
    text = replaced(std::move(text), name, size);
  }
  return replaced(std::move(text), "T[", c.type + "[");
}

const char* const kLayerNorm = R"(
        (a: T[$M,$K], b: T[$K,$N], c: T[$N], r: T[$M,$N], g: T[$N]) {
          p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M,$N]
          d = broadcast c, dims={1} : T[$M,$N]
          h = constant 0.015625 : T[]
          hb = broadcast h, dims={} : T[$M,$N]
          l = mul p, hb : T[$M,$N]
          q = add l, d : T[$M,$N]
          t = add q, r : T[$M,$N]
          s = reduce t, axes={1}, combiner=sum : T[$M]
          n = constant $N : T[]
          nb = broadcast n, dims={} : T[$M]
          mean = div s, nb : T[$M]
          mb = broadcast mean, dims={0} : T[$M,$N]
          u = sub t, mb : T[$M,$N]
          uu = mul u, u : T[$M,$N]
          v = reduce uu, axes={1}, combiner=sum : T[$M]
          var = div v, nb : T[$M]
          dev = sqrt var : T[$M]
          db = broadcast dev, dims={0} : T[$M,$N]
          w = div u, db : T[$M,$N]
          gb = broadcast g, dims={1} : T[$M,$N]
          y = mul w, gb : T[$M,$N]
        } -> (y))";

class RowEpilogue : public GpuPipeline {
 protected:
  /// One kernel through tiles, equal to the interpreter, with the traffic that the plan predicts,
  /// and code without spills.
  static EmulatedRun expect_one_kernel(const std::string& text, const Case& c) {
    SCOPED_TRACE(c.type + " " + c.sizes + (c.fast_math ? " on units" : ""));
    CompileOptions options;
    options.compositions = "leaf";  // not as a chain of one product
    EmulatedRun run = run_and_compare(filled(text, c), *find_target("a100-40gb"), tolerance(c),
                                      c.fast_math, options);
    EXPECT_NE(run.compilation, nullptr);
    if (run.compilation == nullptr) return run;
    EXPECT_EQ(run.compilation->plan.kernels.size(), 1U) << *print_level(*run.compilation, "plan");
    const ScheduledKernel& kernel = run.schedule(0);
    EXPECT_THAT(kernel.schedule_template, ::testing::HasSubstr("contract on"));
    const auto predicted = predict_traffic(kernel.program, kernel.scopes);
    EXPECT_TRUE(predicted.ok());
    if (!predicted.ok()) return run;
    int64_t read = 0, written = 0;
    for (const Launch& l : run.launches) {
      for (const simt::BufferTraffic& b : l.report.traffic.buffers) {
        if (b.name == "barrier") continue;
        read += b.loads.distinct;
        written += b.stores.distinct;
      }
    }
    // Of a convolution's windows a warp asks for some elements more than once.
    if (text.find("convolution") == std::string::npos) {
      EXPECT_EQ(read, predicted->requested_read);
    } else {
      EXPECT_LE(read, predicted->requested_read);
    }
    EXPECT_EQ(written, predicted->requested_written);
    expect_no_spills(run);
    return run;
  }
};

TEST_F(RowEpilogue, LayerNormAfterAProjection) {
  for (const Case& c : {Case{"f16", "37 46 50"}, Case{"bf16", "18 77 33"}, Case{"f32", "37 46 50"},
                        Case{"f32", "21 39 27", true}}) {
    expect_one_kernel(kLayerNorm, c);
  }
}

/// Few rows of a long sum: blocks share the depth, and warps reduce the rows that they add up.
TEST_F(RowEpilogue, LayerNormBehindASharedDepth) {
  for (const Case& c :
       {Case{"f16", "16 70 2048"}, Case{"bf16", "9 35 1500"}, Case{"f32", "16 130 1001"}}) {
    const EmulatedRun run = expect_one_kernel(kLayerNorm, c);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_THAT(run.schedule(0).schedule_template, ::testing::HasSubstr("depth over"));
  }
}

TEST_F(RowEpilogue, SoftmaxOfLogits) {
  for (const Case& c : {Case{"bf16", "37 46 50"}, Case{"f16", "19 201 33"}, Case{"f32", "21 39 40"},
                        Case{"f32", "18 33 27", true}}) {
    expect_one_kernel(R"(
        (a: T[3,$M,$K], b: T[3,$N,$K]) {
          p = dot_general a, b, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={2} : T[3,$M,$N]
          c = constant 0.125 : T[]
          cb = broadcast c, dims={} : T[3,$M,$N]
          t = mul p, cb : T[3,$M,$N]
          m = reduce t, axes={2}, combiner=max : T[3,$M]
          mb = broadcast m, dims={0,1} : T[3,$M,$N]
          u = sub t, mb : T[3,$M,$N]
          e = exp u : T[3,$M,$N]
          s = reduce e, axes={2}, combiner=sum : T[3,$M]
          sb = broadcast s, dims={0,1} : T[3,$M,$N]
          y = div e, sb : T[3,$M,$N]
        } -> (y))",
                      c);
  }
}

/// The position and its value; of equals the first, or the last. Sums of small integers are the
/// same rounded and not.
TEST_F(RowEpilogue, PositionOfTheBestLogit) {
  for (const Case& c : {Case{"f16", "37 46 50"}, Case{"bf16", "19 100 33"}, Case{"f32", "21 39 40"},
                        Case{"f32", "18 33 27", true}}) {
    const std::string last = c.type == "f16" ? "true" : "false";
    expect_one_kernel(replaced(R"(
        (a: T[$M,$K], b: T[$K,$N], c: T[$N]) {
          w = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[$M,$N]
          p = convert w : T[$M,$N]
          d = broadcast c, dims={1} : T[$M,$N]
          f = floor p : T[$M,$N]
          g = floor d : T[$M,$N]
          t = add f, g : T[$M,$N]
          y = arg_reduce t, axis=1, combiner=arg_max, last_on_ties=LAST : i64[$M]
          z = reduce t, axes={1}, combiner=max : T[$M]
        } -> (y, z))",
                               "LAST", last),
                      c);
  }
}

/// Channels are the rows of a convolution's product where pixels lie side by side, and its columns
/// where channels do.
TEST_F(RowEpilogue, SoftmaxOverChannels) {
  const char* const planes = R"(
      (x: T[2,$K,5,7], w: T[$N,$K,3,3]) {
        c = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : T[2,$N,5,7]
        m = reduce c, axes={1}, combiner=max : T[2,5,7]
        mb = broadcast m, dims={0,2,3} : T[2,$N,5,7]
        u = sub c, mb : T[2,$N,5,7]
        e = exp u : T[2,$N,5,7]
        s = reduce e, axes={1}, combiner=sum : T[2,5,7]
        sb = broadcast s, dims={0,2,3} : T[2,$N,5,7]
        y = div e, sb : T[2,$N,5,7]
      } -> (y))";
  const char* const pixels = R"(
      (x: T[2,$M,5,$K], w: T[$K,$N]) {
        c = dot_general x, w, lhs_contract={3}, rhs_contract={0} : T[2,$M,5,$N]
        m = reduce c, axes={3}, combiner=max : T[2,$M,5]
        mb = broadcast m, dims={0,1,2} : T[2,$M,5,$N]
        u = sub c, mb : T[2,$M,5,$N]
        e = exp u : T[2,$M,5,$N]
        s = reduce e, axes={3}, combiner=sum : T[2,$M,5]
        sb = broadcast s, dims={0,1,2} : T[2,$M,5,$N]
        y = div e, sb : T[2,$M,5,$N]
      } -> (y))";
  for (const Case& c : {Case{"f16", "0 21 10"}, Case{"f32", "0 40 5"}, Case{"bf16", "0 37 9"}}) {
    expect_one_kernel(planes, c);
  }
  for (const Case& c : {Case{"f16", "7 21 18"}, Case{"f32", "9 33 20"}, Case{"bf16", "6 37 19"}}) {
    expect_one_kernel(pixels, c);
  }
}

/// The whole row of a wide model: registers hold what 16-bit weights leave of it.
TEST_F(RowEpilogue, WideRowsCompileWithoutSpills) {
  for (const char* sizes : {"4096 256 256", "128 768 3072"}) {
    EmulatedRun run;
    const auto graph = parse_graph(filled(kLayerNorm, {"f16", sizes}));
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    CompileOptions options;
    options.device = *find_target("a100-40gb");
    options.device->launch_us = 20;  // so that they are one kernel, whatever it takes
    auto compiled = compile_graph(*graph, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    run.compilation = std::move(*compiled);
    EXPECT_EQ(run.compilation->plan.kernels.size(), 1U) << *print_level(*run.compilation, "plan");
    expect_no_spills(run);
  }
}

/// Rows that no tile holds, and whose elements nothing asks for again (Souffle §6.3): each tile
/// reduces what it has, and parts are put together behind a barrier of the grid. The product is
/// stored where it is asked for, and nowhere else.
TEST_F(RowEpilogue, RowsInPartsOfTheirTiles) {
  const char* const squares = R"(
        (a: T[$M,$K], b: T[$K,$N], c: T[$N]) {
          p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M,$N]
          d = broadcast c, dims={1} : T[$M,$N]
          h = constant 0.0625 : T[]
          hb = broadcast h, dims={} : T[$M,$N]
          l = mul p, hb : T[$M,$N]
          t = add l, d : T[$M,$N]
          q = mul t, t : T[$M,$N]
          s = reduce q, axes={1}, combiner=sum : T[$M]
          m = reduce t, axes={1}, combiner=max : T[$M]
          r = sqrt s : T[$M]
          y = add r, m : T[$M]
        } -> (OUT))";
  for (const char* outputs : {"y", "t, y"}) {
    for (const Case& c :
         {Case{"f16", "200 3000 64"}, {"f16", "33 2600 40"}, {"f32", "70 2100 36"}}) {
      const EmulatedRun run = expect_one_kernel(replaced(squares, "OUT", outputs), c);
      ASSERT_NE(run.compilation, nullptr);
      EXPECT_THAT(run.schedule(0).schedule_template, ::testing::HasSubstr("rows in parts"));
      EXPECT_TRUE(run.launches[0].kernel.grid_barrier);
    }
  }
}

/// Tiles are more than the blocks that the device holds: these go through them in turns.
TEST_F(RowEpilogue, PartsOfRowsInTurns) {
  const Target target = with_sms(*find_target("a100-40gb"), 2);
  const EmulatedRun run = run_and_compare(R"(
        (a: f16[300,32], b: f16[32,3000]) {
          p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[300,3000]
          m = reduce p, axes={1}, combiner=max : f16[300]
        } -> (m))",
                                          target, 6e-3);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.launches.size(), 1U);
  const TileProgram& program = run.schedule(0).program;
  EXPECT_THAT(run.schedule(0).schedule_template, ::testing::HasSubstr("rows in parts"));
  EXPECT_LE(program.blocks.constant(), program.per_sm * target.sm_count);
  expect_no_spills(run);
}

}  // namespace
}  // namespace weft::testing
