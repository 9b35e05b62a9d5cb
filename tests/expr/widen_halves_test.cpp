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
  TensorProgram program = expressed(R"((x: f16[8,8], w: f16[8,8]) {
    a = add x, x : f16[8,8]
    p = dot_general a, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[8,8]
    s = add p, a : f16[8,8]
    q = dot_general s, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[8,8]
    y = add q, p : f16[8,8]
  } -> (y))");
  EXPECT_TRUE(widen_operands(program, false));
  EXPECT_EQ(print(program),
            R"(program {
  input x: f16[8,8]
  input w: f16[8,8]
  a: f32[8,8] = f32(x[d0, d1]) + f32(x[d0, d1])
  p: f16[8,8] = contraction sum[8]:f32 a[d0, r0] * f32(w[r0, d1])
  s: f32[8,8] = f32(p[d0, d1]) + a[d0, d1]
  q: f16[8,8] = contraction sum[8]:f32 s[d0, r0] * f32(w[r0, d1])
  y: f16[8,8] = f16(f32(q[d0, d1]) + f32(p[d0, d1]))
  output y as y
}
)");
}

TEST(WidenOperands, LeavesWhatTheCallerSees) {
  TensorProgram program = expressed(R"((x: f16[8,8]) {
    a = add x, x : f16[8,8]
    y = dot_general a, x, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[8,8]
  } -> (a, y))");
  const std::string before = print(program);
  EXPECT_FALSE(widen_operands(program, false));
  EXPECT_EQ(print(program), before);
}

}  // namespace
}  // namespace weft
