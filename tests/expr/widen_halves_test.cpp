#include "expr/products/widen_halves.h"

#include <gtest/gtest.h>

#include "expr/express/express.h"
#include "graph/graph.h"

namespace weft {
namespace {

TensorProgram expressed(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  auto program = express(*graph);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(*program);
}

TEST(WidenOperands, MakesWhatContractionsReadFloat32) {
  TensorProgram program = expressed(R"((x: f16[1,8], w: f16[8,8]) {
    a = add x, x : f16[1,8]
    p = dot_general a, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[1,8]
    s = add p, a : f16[1,8]
    q = dot_general s, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[1,8]
    y = add q, p : f16[1,8]
  } -> (y))");
  EXPECT_TRUE(widen_operands(program, false));
  EXPECT_EQ(print(program),
            R"(program {
  input x: f16[1,8]
  input w: f16[8,8]
  a: f32[1,8] = f32(x[d0, d1]) + f32(x[d0, d1])
  p: f16[1,8] = contraction sum[8]:f32 a[d0, r0] * f32(w[r0, d1])
  s: f32[1,8] = f32(p[d0, d1]) + a[d0, d1]
  q: f16[1,8] = contraction sum[8]:f32 s[d0, r0] * f32(w[r0, d1])
  y: f16[1,8] = f16(f32(q[d0, d1]) + f32(p[d0, d1]))
  output y as y
}
)");
}

TEST(WidenOperands, LeavesWhatTheCallerSees) {
  TensorProgram program = expressed(R"((x: f16[2,2]) {
    a = add x, x : f16[2,2]
    y = dot_general a, x, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[2,2]
  } -> (a, y))");
  const std::string before = print(program);
  EXPECT_FALSE(widen_operands(program, false));
  EXPECT_EQ(print(program), before);
}

/// Each element of x is read 8 times, of k twice.
TEST(WidenOperands, CopiesInputsThatAreReadOften) {
  TensorProgram program = expressed(R"((x: f16[2,8], k: f16[8,8]) {
    p = dot_general x, k, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[2,8]
    q = dot_general x, k, lhs_contract={1}, rhs_contract={1}, lhs_batch={}, rhs_batch={} : f16[2,8]
    y = add p, x : f16[2,8]
  } -> (y, q))");
  EXPECT_TRUE(widen_operands(program, false));
  EXPECT_TRUE(verify_tensor_program(program).ok());
  EXPECT_EQ(print(program),
            R"(program {
  input x: f16[2,8]
  input k: f16[8,8]
  x_f32: f32[2,8] = f32(x[d0, d1])
  k_f32: f32[8,8] = f32(k[d0, d1])
  p: f16[2,8] = contraction sum[8]:f32 x_f32[d0, r0] * k_f32[r0, d1]
  q: f16[2,8] = contraction sum[8]:f32 x_f32[d0, r0] * k_f32[d1, r0]
  y: f16[2,8] = f16(f32(p[d0, d1]) + f32(x[d0, d1]))
  output y as y
  output q as q
}
)");
}

/// What the caller sees stays, and is read from a copy.
TEST(WidenOperands, CopiesOutputsThatAreReadOften) {
  TensorProgram program = expressed(R"((x: f16[8,8]) {
    a = add x, x : f16[8,8]
    y = dot_general a, a, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[8,8]
  } -> (a, y))");
  EXPECT_TRUE(widen_operands(program, false));
  EXPECT_EQ(print(program),
            R"(program {
  input x: f16[8,8]
  a: f16[8,8] = f16(f32(x[d0, d1]) + f32(x[d0, d1]))
  a_f32: f32[8,8] = f32(a[d0, d1])
  y: f16[8,8] = contraction sum[8]:f32 a_f32[d0, r0] * a_f32[r0, d1]
  output a as a
  output y as y
}
)");
}

}  // namespace
}  // namespace weft
