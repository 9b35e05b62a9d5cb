// Windows of single channels on the plain cores, from the graph to the emulator: what a thread's
// rows read together, with strides, dilations, tails of all axes, and where no rows divide.

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

class GpuWindows : public GpuPipeline {};

/// A convolution of `channels` single channels, channels last; sizes as the convolution has them.
struct Window {
  std::string type, image, weights, result, attributes;
  int channels;
};

std::string convolution(const Window& w) {
  std::string text = R"((xl: TYPE[IMAGE,CHANNELS], w: TYPE[CHANNELS,1,WEIGHTS], b: TYPE[CHANNELS]) {
  x = transpose xl, permutation={0,3,1,2} : TYPE[2,CHANNELS,SIZES]
  c = convolution x, w, ATTRIBUTES, lhs_dilations={1,1}, groups=CHANNELS : TYPE[2,CHANNELS,RESULT]
  bb = broadcast b, dims={1} : TYPE[2,CHANNELS,RESULT]
  s = add c, bb : TYPE[2,CHANNELS,RESULT]
  t = tanh s : TYPE[2,CHANNELS,RESULT]
  y = transpose t, permutation={0,2,3,1} : TYPE[2,RESULT,CHANNELS]
} -> (y))";
  text = replaced(text, "TYPE", w.type);
  text = replaced(text, "IMAGE", "2," + w.image);
  text = replaced(text, "SIZES", w.image);
  text = replaced(text, "WEIGHTS", w.weights);
  text = replaced(text, "RESULT", w.result);
  text = replaced(text, "ATTRIBUTES", w.attributes);
  return replaced(text, "CHANNELS", std::to_string(w.channels));
}

TEST_F(GpuWindows, OfSingleChannels) {
  const std::vector<Window> windows = {
      {"f16", "14,14", "7,7", "14,14", "strides={1,1}, low={3,3}, high={3,3}, rhs_dilations={1,1}",
       40},
      {"f32", "16,15", "5,5", "8,8", "strides={2,2}, low={2,2}, high={2,2}, rhs_dilations={1,1}",
       20},
      {"bf16", "10,13", "3,3", "10,13", "strides={1,1}, low={2,2}, high={2,2}, rhs_dilations={2,2}",
       7},
      // Rows that lie three apart, and taps two: no window, but the columns have one.
      {"f32", "12,12", "3,3", "4,12", "strides={3,1}, low={1,1}, high={2,1}, rhs_dilations={2,1}",
       36},
      {"f16", "9,1", "3,1", "9,1", "strides={1,1}, low={1,0}, high={1,0}, rhs_dilations={1,1}", 64},
      {"f16", "11,13", "3,3", "11,13", "strides={1,1}, low={1,1}, high={1,1}, rhs_dilations={1,1}",
       32}};
  for (const Window& w : windows) {
    const std::string text = convolution(w);
    SCOPED_TRACE(text);
    for (const char* target : {"a100-40gb", "h100-sxm"}) {
      const double tolerance = w.type == "f32" ? 1e-5 : w.type == "f16" ? 4e-3 : 3e-2;
      const EmulatedRun run = run_and_compare(text, *find_target(target), tolerance);
      ASSERT_NE(run.compilation, nullptr);
      expect_no_spills(run, {"sm_80", "sm_90"});
      // 11 and 13 have no divisor that a thread's rows could be.
      const bool divides = w.image != "11,13";
      EXPECT_EQ(print_level(*run.compilation, "plan")->find("window true") != std::string::npos,
                divides);
    }
  }
}

/// Maxima and sums of windows, where no other factor is; what is outside is left out.
TEST_F(GpuWindows, OfPooling) {
  for (const char* combiner : {"max", "sum"}) {
    for (const char* type : {"f32", "f16"}) {
      const std::string text = replaced(
          replaced("(xl: T[2,12,14,40]) {\n  y = reduce_window xl, window={1,3,3,1}, "
                   "strides={1,2,2,1}, dilations={1,1,1,1}, low={0,1,1,0}, high={0,1,1,0}, "
                   "combiner=COMBINER : T[2,6,7,40]\n} -> (y)",
                   "T[", type + std::string("[")),
          "COMBINER", combiner);
      SCOPED_TRACE(text);
      const EmulatedRun run = run_and_compare(text, *find_target("h100-sxm"), 4e-3);
      ASSERT_NE(run.compilation, nullptr);
      EXPECT_THAT(*print_level(*run.compilation, "plan"), ::testing::HasSubstr("window true"));
    }
  }
}

/// One dimension has no loop around its taps.
TEST_F(GpuWindows, OfOneDimension) {
  const EmulatedRun run = run_and_compare(R"((xl: f16[3,64,48], w: f16[48,1,9]) {
  x = transpose xl, permutation={0,2,1} : f16[3,48,64]
  c = convolution x, w, strides={1}, low={4}, high={4}, lhs_dilations={1}, rhs_dilations={1}, groups=48 : f16[3,48,64]
  y = transpose c, permutation={0,2,1} : f16[3,64,48]
} -> (y))",
                                          *find_target("h100-sxm"), 4e-3);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_THAT(*print_level(*run.compilation, "tile-program"), ::testing::HasSubstr("window["));
}

/// What is chosen can be edited, but not to what is none.
TEST_F(GpuWindows, RefusesRowsThatDoNotDivide) {
  const Window w = {
      "f32", "14,14", "3,3", "14,14", "strides={1,1}, low={1,1}, high={1,1}, rhs_dilations={1,1}",
      32};
  const std::unique_ptr<Compilation> compiled = planned(convolution(w));
  ASSERT_NE(compiled, nullptr);
  const std::string plan = *print_level(*compiled, "plan");
  const size_t at = plan.find("row_digits "), end = plan.find(" column_digits");
  ASSERT_TRUE(at != std::string::npos && end != std::string::npos) << plan;
  const auto refusal = [&](const std::string& digits) {
    std::string other = plan;
    other.replace(at, end - at, "row_digits " + digits);
    const auto parsed = parse_plan(other, compiled->tensors, compiled->target);
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  EXPECT_THAT(refusal("REG_4"), ::testing::HasSubstr("do not divide all rows"));
  EXPECT_THAT(refusal("LANE_1"), ::testing::HasSubstr("do not divide all rows"));
}

}  // namespace
}  // namespace weft::testing
