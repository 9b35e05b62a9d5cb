#include "schedule/calls/library_call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "expr/movement/assign_layouts.h"
#include "schedule/schedule.h"
#include "target/target.h"
#include "tests/graph_texts.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

/// The library call for everything in a graph as one kernel; empty where there is none.
std::string called(const std::string& text, const std::vector<std::string>& named = {"cublaslt"}) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  Target target = *find_target("a100-80gb");
  target.libraries = named;
  auto kernel = schedule_group(program, group, target, "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  if (!kernel.ok() || !kernel->library) return "";
  EXPECT_EQ(kernel->schedule_template, library_of(*kernel->library));
  return print(*kernel->library);
}

TEST(LibraryCalls, ADenseLayerWithBiasAndClamp) {
  const std::string text = R"(
(x: f32[4,512,768], w: f32[768,3072], b: f32[3072]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[4,512,3072]
  c = broadcast b, dims={2} : f32[4,512,3072]
  s = add c, p : f32[4,512,3072]
  z = constant 0 : f32[]
  o = broadcast z, dims={} : f32[4,512,3072]
  y = max s, o : f32[4,512,3072]
} -> (y))";
  EXPECT_EQ(called(text),
            "cublaslt 1x2048x3072x768 f32 -> f32 a 0 n 768 0 b 1 n 3072 0 c 3 n 3072 0 bias 2 "
            "clamps");
  EXPECT_EQ(called(text, /*named=*/{}), "");
}

TEST(LibraryCalls, ABatchOfTransposedProducts) {
  EXPECT_EQ(called(R"(
(q: f32[12,512,64], k: f32[12,512,64]) {
  y = dot_general q, k, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={2} : f32[12,512,512]
} -> (y))"),
            "cublaslt 12x512x512x64 f32 -> f32 a 0 n 64 32768 b 1 t 64 32768 c 2 n 512 262144");
}

TEST(LibraryCalls, HalvesThatSumUpInFloat) {
  EXPECT_EQ(called(product(2048, 1024, 1024, "f16")),
            "cublaslt 1x2048x1024x1024 f16 -> f16 a 0 n 1024 0 b 1 n 1024 0 c 2 n 1024 0");
}

TEST(LibraryCalls, NotWhatALibraryLacksOrDoesNoFaster) {
  // A function of the product that is no epilogue.
  EXPECT_EQ(called(product(2048, 3072, 768, "f32", "  y = tanh p : f32[2048,3072]\n")), "");
  // A bias along the rows.
  EXPECT_EQ(called(R"(
(x: f32[2048,768], w: f32[768,3072], b: f32[2048]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2048,3072]
  c = broadcast b, dims={0} : f32[2048,3072]
  y = add p, c : f32[2048,3072]
} -> (y))"),
            "");
  // A part of a tensor that does not begin where the tensor does.
  EXPECT_EQ(called(R"(
(x: f32[2048,1536], w: f32[768,3072]) {
  h = slice x, start={0,768}, step={1,1} : f32[2048,768]
  y = dot_general h, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2048,3072]
} -> (y))"),
            "");
  // Bound by memory: eight rows.
  EXPECT_EQ(called(product(8, 3072, 768, "f32")), "");
}

/// The call for a convolution of x with w, and what `after` makes of its result p, as y.
std::string convolved(const std::string& types, const std::string& how,
                      const std::string& after = "", const std::string& inputs = "") {
  std::istringstream of(types);
  std::string type, x, w, y;
  of >> type >> x >> w >> y;
  const std::string result = fmt::format("{}[{}]", type, y);
  const auto with = [&](std::string text) {
    for (size_t at = 0; (at = text.find('$')) != std::string::npos;) text.replace(at, 1, result);
    return text;
  };
  std::string text = fmt::format("(x: {0}[{1}], w: {0}[{2}]{3}) {{\n  p = convolution x, w, {4}",
                                 type, x, w, with(inputs), how);
  text += with(" : $\n" + after) + "\n}";
  return called(text + (after.empty() ? " -> (p)" : " -> (y)"), {"cudnn"});
}

const char* const kSame =
    "strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1";

TEST(LibraryCalls, ConvolutionsOfAnyShape) {
  EXPECT_EQ(convolved("f32 8,64,40,40 128,64,3,3 8,128,40,40", kSame),
            "cudnn f32 first 8 images 64 -> 128 groups 1 input 40x40 window 3x3 stride 1x1 "
            "dilation 1x1 padding 1x1 x 1 w 0 y 2");
  // Groups, a stride, a dilation, no padding, different axes.
  EXPECT_EQ(convolved("f16 8,64,60,45 512,32,3,5 8,512,29,35",
                      "strides={2,1}, low={0,1}, high={0,1}, lhs_dilations={1,1}, "
                      "rhs_dilations={1,3}, groups=2"),
            "cudnn f16 first 8 images 64 -> 512 groups 2 input 60x45 window 3x5 stride 2x1 "
            "dilation 1x3 padding 0x1 x 0 w 1 y 2");
  // One axis and three.
  EXPECT_EQ(convolved("f32 8,64,4000 128,64,7 8,128,4000",
                      "strides={1}, low={3}, high={3}, lhs_dilations={1}, rhs_dilations={1}, "
                      "groups=1"),
            "cudnn f32 first 8 images 64 -> 128 groups 1 input 4000 window 7 stride 1 dilation 1 "
            "padding 3 x 1 w 0 y 2");
  EXPECT_EQ(convolved("f32 1,32,12,20,20 64,32,3,3,3 1,64,12,20,20",
                      "strides={1,1,1}, low={1,1,1}, high={1,1,1}, lhs_dilations={1,1,1}, "
                      "rhs_dilations={1,1,1}, groups=1"),
            "cudnn f32 first 1 images 32 -> 64 groups 1 input 12x20x20 window 3x3x3 stride 1x1x1 "
            "dilation 1x1x1 padding 1x1x1 x 1 w 0 y 2");
  // The zeros at the end that a stride leaves out need not be there.
  EXPECT_THAT(convolved("f32 8,64,40,40 128,64,3,3 8,128,20,20",
                        "strides={2,2}, low={1,1}, high={0,0}, lhs_dilations={1,1}, "
                        "rhs_dilations={1,1}, groups=1"),
              testing::HasSubstr("stride 2x2 dilation 1x1 padding 1x1"));
}

TEST(LibraryCalls, WhatFollowsAConvolution) {
  const std::string types = "f32 8,64,40,40 128,64,3,3 8,128,40,40";
  const std::string biased = "  c = broadcast b, dims={1} : $\n  s = add p, c : $\n",
                    clamped = "  z = constant 0 : f32[]\n  o = broadcast z, dims={} : $\n";
  EXPECT_THAT(convolved(types, kSame, biased + clamped + "  y = max s, o : $", ", b: f32[128]"),
              testing::EndsWith("x 1 w 0 y 3 bias 2 clamps"));
  EXPECT_THAT(convolved(types, kSame, biased + clamped + "  t = add r, s : $\n  y = max t, o : $",
                        ", b: f32[128], r: $"),
              testing::EndsWith("x 1 w 0 y 4 bias 2 residual 3 clamps"));
  // No bias, a residual after the clamp, a bias along another axis, another function.
  EXPECT_EQ(convolved(types, kSame, clamped + "  y = max p, o : $"), "");
  EXPECT_EQ(convolved(types, kSame, biased + clamped + "  t = max s, o : $\n  y = add r, t : $",
                      ", b: f32[128], r: $"),
            "");
  EXPECT_EQ(convolved(types, kSame, "  c = broadcast b, dims={2} : $\n  y = add p, c : $",
                      ", b: f32[40]"),
            "");
  EXPECT_EQ(convolved(types, kSame, "  y = sigmoid p : $"), "");
}

TEST(LibraryCalls, NotConvolutionsThatNoLibraryHas) {
  // Padding at one end only, positions between the elements, little arithmetic.
  EXPECT_EQ(convolved("f32 8,64,40,40 128,64,3,3 8,128,40,40",
                      "strides={1,1}, low={2,1}, high={0,1}, lhs_dilations={1,1}, "
                      "rhs_dilations={1,1}, groups=1"),
            "");
  EXPECT_EQ(convolved("f32 8,64,40,40 128,64,3,3 8,128,79,79",
                      "strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={2,2}, "
                      "rhs_dilations={1,1}, groups=1"),
            "");
  EXPECT_EQ(convolved("f32 8,64,40,40 64,1,3,3 8,64,40,40",
                      "strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, "
                      "rhs_dilations={1,1}, groups=64"),
            "");
  // A part of the image.
  EXPECT_EQ(called(R"(
(x: f32[8,64,48,40], w: f32[128,64,3,3]) {
  h = slice x, start={0,0,4,0}, step={1,1,1,1} : f32[8,64,44,40]
  y = convolution h, w, strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[8,128,42,38]
} -> (y))",
                   {"cudnn"}),
            "");
  EXPECT_EQ(called("(x: f32[2048,768], w: f32[768,3072]) {\n  y = dot_general x, w, "
                   "lhs_contract={1}, rhs_contract={0} : f32[2048,3072]\n} -> (y)",
                   {"cudnn"}),
            "");
  // A window of one that stands everywhere.
  EXPECT_EQ(convolved("f32 8,256,40,40 512,256,1,1 8,512,40,40",
                      "strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, "
                      "rhs_dilations={1,1}, groups=1"),
            "");
}

/// Channels lie last between the kernels of a model: then weights that are constants are packed so.
TEST(LibraryCalls, WeightsLieAsImagesDo) {
  TensorProgram program = expressed(R"(
(x: f16[8,64,40,40], v: f16[128,64,3,3]) {
  r = tanh x : f16[8,64,40,40]
  p = convolution r, v, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f16[8,128,40,40]
  y = tanh p : f16[8,128,40,40]
} -> (y))");
  ASSERT_TRUE(assign_layouts(program, false));
  Tensor& weights = program.tensors[static_cast<size_t>(program.inputs[1])];
  weights.kind = Tensor::Kind::kConstant;
  weights.value = HostTensor(DType::kF16, weights.type.shape);
  Target target = *find_target("h100-sxm");
  target.libraries = {"cudnn"};
  const auto of = [&](const char* name) {
    for (size_t e = 0; e < program.exprs.size(); ++e) {
      const TensorId t = program.exprs[e].output;
      if (program.tensors[static_cast<size_t>(t)].name != name) continue;
      return Group{{static_cast<ExprId>(e)}, {t}};
    }
    return Group{};
  };
  const auto kernel = schedule_group(program, of("p"), target, "k");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  ASSERT_TRUE(kernel->library.has_value());
  EXPECT_EQ(print(*kernel->library),
            "cudnn f16 last 8 images 64 -> 128 groups 1 input 40x40 window 3x3 stride 1x1 dilation "
            "1x1 padding 1x1 x 0 w 1 y 2");
  ASSERT_EQ(kernel->orders.size(), 1U);
  EXPECT_EQ(kernel->orders.begin()->first, kernel->parameters[1]);
  EXPECT_EQ(print(kernel->orders.begin()->second), "{0,1,128}{2,1,3}{3,1,3}{1,1,64}");
  target.libraries = {};
  const auto own = schedule_group(program, of("p"), target, "k");
  ASSERT_TRUE(own.ok());
  EXPECT_TRUE(own->orders.empty());
}

}  // namespace
}  // namespace weft
