#include "expr/products/fold_scales.h"

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

/// What the pass leaves of a program; it computes the same, as the numbers are powers of two.
std::string folded(const std::string& text, const std::vector<HostTensor>& inputs, bool changes) {
  const Graph graph = parsed_graph(text);
  TensorProgram program = expressed(graph);
  fold_movement(program);
  remove_dead_expressions(program);
  const auto expected = interpret(graph, inputs);
  EXPECT_TRUE(expected.ok());
  EXPECT_EQ(!fold_scales(program).empty(), changes);
  remove_dead_expressions(program);
  expect_computes(program, inputs, *expected);
  const std::string printed = print(program);
  EXPECT_TRUE(fold_scales(program).empty());
  return printed;
}

HostTensor integers(DType type, Shape shape) {
  HostTensor out(type, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set_int(i, i * 7 % 19);
  return out;
}

TEST(FoldScales, DividesConstantsInsteadOfWhatIsMadeOfIntegers) {
  EXPECT_EQ(folded(R"((p: i32[2,3]) {
  f = convert p : f32[2,3]
  s = constant {0.5, 1, 2} : f32[3]
  sb = broadcast s, dims={1} : f32[2,3]
  m = mul f, sb : f32[2,3]
  b = constant {4, 8, 16} : f32[3]
  bb = broadcast b, dims={1} : f32[2,3]
  c = add m, bb : f32[2,3]
  z = constant 0 : f32[]
  zb = broadcast z, dims={} : f32[2,3]
  r = max c, zb : f32[2,3]
  d = constant 4 : f32[]
  db = broadcast d, dims={} : f32[2,3]
  q = div r, db : f32[2,3]
  y = round_even q : f32[2,3]
} -> (y))",
                   {integers(DType::kI32, {2, 3})}, true),
            R"(program {
  input p: i32[2,3]
  constant s_folded: f32[3] = {0.125, 0.25, 0.5}
  constant b_folded: f32[3] = {1, 2, 4}
  q: f32[2,3] = max(f32(p[d0, d1]) * s_folded[d1] + b_folded[d1], 0.0)
  y: f32[2,3] = round_even(q[d0, d1])
  output y as y
}
)");
}

TEST(FoldScales, LeavesFloatsAndOtherDivisors) {
  const HostTensor p = integers(DType::kI32, {2, 3});
  HostTensor x(DType::kF32, {2, 3});
  for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, static_cast<double>(i));
  const std::string rest = R"(
  d = constant DIVISOR : f32[]
  db = broadcast d, dims={} : f32[2,3]
  q = div f, db : f32[2,3]
} -> (q))";
  const auto divided_by = [&](std::string divisor) {
    std::string text = rest;
    return text.replace(text.find("DIVISOR"), 7, divisor);
  };
  folded("(x: f32[2,3]) {\n  f = mul x, x : f32[2,3]" + divided_by("4"), {x}, false);
  folded("(p: i32[2,3]) {\n  f = convert p : f32[2,3]" + divided_by("-4"), {p}, false);
  folded("(p: i32[2,3]) {\n  f = convert p : f32[2,3]" + divided_by("1e-30"), {p}, false);
  folded("(p: i32[2,3]) {\n  f = convert p : f32[2,3]" + divided_by("4"), {p}, true);
}

}  // namespace
}  // namespace weft
