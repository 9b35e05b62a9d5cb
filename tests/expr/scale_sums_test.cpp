#include "expr/products/scale_sums.h"

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

HostTensor numbers(DType type, Shape shape) {
  HostTensor out(type, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set_double(i, static_cast<double>(i * 7 % 19 - 9));
  return out;
}

/// What the pass leaves of a program, which computes the same.
std::string scaled(const std::string& text, bool changes) {
  const Graph graph = parsed_graph(text);
  TensorProgram program = expressed(graph);
  fold_movement(program);
  remove_dead_expressions(program);
  std::vector<HostTensor> inputs;
  for (const TensorId input : program.inputs) {
    const TensorType& type = program.tensors[static_cast<size_t>(input)].type;
    inputs.push_back(numbers(type.dtype, type.shape));
  }
  const auto expected = interpret(graph, inputs);
  EXPECT_TRUE(expected.ok());
  EXPECT_EQ(!scale_sums(program).empty(), changes);
  remove_dead_expressions(program);
  const Status status = verify_tensor_program(program);
  EXPECT_TRUE(status.ok()) << status.error().message;
  expect_computes(program, inputs, *expected);
  const std::string printed = print(program);
  EXPECT_TRUE(scale_sums(program).empty());
  return printed;
}

/// Queries and keys of attention as PyTorch exports it: parts of one tensor, each scaled.
TEST(ScaleSums, ScalesASumInsteadOfItsFactors) {
  EXPECT_EQ(scaled(R"((x: f16[4,2,8]) {
  a = slice x, start={0,0,0}, step={1,1,1} : f16[4,1,8]
  b = slice x, start={0,1,0}, step={1,1,1} : f16[4,1,8]
  ra = reshape a : f16[4,8]
  rb = reshape b : f16[4,8]
  c = constant 0.25 : f16[]
  cb = broadcast c, dims={} : f16[4,8]
  q = mul ra, cb : f16[4,8]
  t = transpose rb, permutation={1,0} : f16[8,4]
  d = constant 2 : f16[]
  db = broadcast d, dims={} : f16[8,4]
  k = div t, db : f16[8,4]
  s = dot_general q, k, lhs_contract={1}, rhs_contract={0} : f16[4,4]
} -> (s))",
                   true),
            R"(program {
  input x: f16[4,2,8]
  s_unscaled: f32[4,4] = contraction sum[8]:f32 f32(x[d0, 0, r0]) * f32(x[d1, 1, r0])
  s: f16[4,4] = f16(s_unscaled[d0, d1] * 0.125)
  output s as s
}
)");
}

/// What is made for others, too, or in the kernel before; what float32 might not hold.
TEST(ScaleSums, LeavesWhatOthersRead) {
  const auto text = [](const std::string& scaling, const std::string& outputs,
                       const std::string& read = "t") {
    return "(x: f32[8,4], y: f32[8,4]) {\n  c = constant " + scaling +
           " : f32[]\n  cb = broadcast c, dims={} : f32[4,8]\n"
           "  t = transpose x, permutation={1,0} : f32[4,8]\n"
           "  r = reshape y : f32[4,8]\n  n = neg r : f32[4,8]\n"
           "  q = mul " +
           read +
           ", cb : f32[4,8]\n"
           "  s = dot_general q, y, lhs_contract={1}, rhs_contract={0} : f32[4,4]\n"
           "  e = exp q : f32[4,8]\n} -> (" +
           outputs + ")";
  };
  scaled(text("0.5", "s"), true);
  scaled(text("0.5", "s, q"), false);
  scaled(text("0.5", "s, e"), false);
  scaled(text("0.5", "s", "n"), false);
  scaled(text("1e-30", "s"), false);
  scaled(text("0", "s"), false);
}

/// A sum of squares, whose factors are one tensor.
TEST(ScaleSums, ScalesSquares) {
  scaled(R"((x: f32[8,4]) {
  c = constant -0.5 : f32[]
  cb = broadcast c, dims={} : f32[4,8]
  t = transpose x, permutation={1,0} : f32[4,8]
  q = mul cb, t : f32[4,8]
  s = dot_general q, q, lhs_contract={1}, rhs_contract={1} : f32[4,4]
} -> (s))",
         true);
}

}  // namespace
}  // namespace weft
