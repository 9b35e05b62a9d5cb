#include "cost/delta.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

/// 1 GB/s and 1 GFLOP/s: a byte and an operation each take a nanosecond.
Target slow() {
  Target t;
  t.name = "test";
  t.bandwidth = {{1, 1}};
  t.peak_gflops = 1;
  t.launch_us = 2;
  t.barrier_us = 1;
  return t;
}

TensorProgram program_of(const char* text) {
  auto program = parse_tensor_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(*program);
}

Delta of_all(const TensorProgram& p, const Target& target) {
  std::vector<ExprId> exprs;
  for (size_t e = 0; e < p.exprs.size(); ++e) exprs.push_back(static_cast<ExprId>(e));
  return DeltaEvaluator(p, target).delta(exprs, p.outputs);
}

TEST(Delta, CountsTrafficAndLaunchesThatAreNotMade) {
  const TensorProgram p = program_of(R"(program {
  input x: f32[100]
  a: f32[100] = exp(x[d0])
  b: f32[100] = a[d0] * x[d0]
  output b as b
})");
  const Delta d = of_all(p, slow());
  // Alone a moves 800 bytes and b 1200, together they read x and write b.
  EXPECT_NEAR(d.memory_us, 1.2, 1e-9);
  EXPECT_NEAR(d.calls_us, 3, 1e-9);
  EXPECT_NEAR(d.penalty_us, 0, 1e-9);
  EXPECT_NEAR(d.gain_us(), 4.2, 1e-9);
  EXPECT_EQ(DeltaEvaluator(p, slow()).delta(std::vector{0}, std::vector{1}).gain_us(), 0);
}

/// Rows of x less their sums.
TensorProgram rows(int64_t m, int64_t n) {
  const std::string rows = std::to_string(m), length = std::to_string(n),
                    type = "f32[" + rows + "," + length + "]";
  return program_of(("program {\n  input x: " + type + "\n  s: f32[" + rows + "] = sum[" + length +
                     "]:f32 x[d0, r0]\n  y: " + type + " = x[d0, d1] - s[d0]\n  output y as y\n}")
                        .c_str());
}

/// Three rows on two threads: one of them has two.
TEST(Delta, ReducedRowsAreTheItemsOfACpu) {
  Target t = slow();
  t.threads = 2;
  // 6000 slots each: of 375 vectors the busiest thread has 188, of three rows it has two.
  EXPECT_NEAR(of_all(rows(3, 1000), t).penalty_us, 12 * 4.0 / 3 - 2 * 6 * 376.0 / 375, 1e-9);
  EXPECT_NEAR(of_all(rows(4, 1000), t).penalty_us, 0, 1e-9);
}

/// Two rows keep two of four SMs busy, which takes memory twice the time.
TEST(Delta, FewRowsLeaveAGpuIdle) {
  Target t = slow();
  t.kind = Target::Kind::kGpu;
  t.sm_count = 4;
  const Delta d = of_all(rows(2, 1000), t);
  EXPECT_NEAR(d.memory_us, 8.008 + 16.008 - 16, 1e-9);
  EXPECT_NEAR(d.penalty_us, 16, 1e-9);
  EXPECT_LT(d.gain_us(), 0);
  EXPECT_NEAR(of_all(rows(4, 1000), t).penalty_us, 0, 1e-9);
}

/// An SM that holds one block at a time. Alone each expression has one block of two warps, which
/// go through 128 / 2 / 64 instructions of four cycles. Together there are two blocks of a warp,
/// one after the other, of 256 / 2 / 64 instructions.
TEST(Delta, WavesOfWarpsTakeTheirInstructions) {
  Target t = slow();
  t.kind = Target::Kind::kGpu;
  t.blocks_per_sm = 1;
  EXPECT_NEAR(of_all(rows(2, 32), t).penalty_us, 2 * 2 * 4.0 / 1000 - 2 * 1 * 4.0 / 1000, 1e-9);
  t.blocks_per_sm = 2;
  EXPECT_NEAR(of_all(rows(2, 32), t).penalty_us, 0, 1e-9);
}

}  // namespace
}  // namespace weft
