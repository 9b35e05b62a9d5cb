#include "cost/estimate.h"

#include <gtest/gtest.h>

#include "graph/graph.h"

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

TEST(Estimate, IsTheRooflineAndTheLaunch) {
  EXPECT_DOUBLE_EQ(latency_us(5000, 1, slow()), 5 + 3);
  EXPECT_DOUBLE_EQ(latency_us(5000, 7, slow()), 7 + 3);
}

/// 10 GB/s at 1000 bytes is a latency of 0.1 us; 100 GB/s are the most that the whole device asks
/// for.
TEST(Estimate, MemoryTakesLatencyAndWhatBusyBlocksAskFor) {
  Target t = slow();
  t.bandwidth = {{1000, 10}, {100000, 100}, {1000000, 20}};
  EXPECT_DOUBLE_EQ(memory_us(0, 1, t), 0.1);
  EXPECT_DOUBLE_EQ(memory_us(1000, 1, t), 0.11);
  // A hundredth of the device asks for 1 GB/s.
  EXPECT_DOUBLE_EQ(memory_us(1000, 0.01, t), 1.1);
  // A quarter of it saturates what lies beyond the cache.
  EXPECT_DOUBLE_EQ(memory_us(1000000, 1, t), 50);
  EXPECT_DOUBLE_EQ(memory_us(1000000, 0.25, t), 50);
  EXPECT_DOUBLE_EQ(memory_us(1000000, 0.1, t), 100.1);
}

constexpr const char* kChain = R"(program {
  input x: f32[100]
  input t: f32[1000,10]
  input i: i64[10]
  a: f32[100] = exp(x[d0])
  b: f32[100] = a[d0] * x[d0]
  g: f32[10,10] = t[i[d0], d1]
  output b as b
  output g as g
})";

TEST(Estimate, ChargesWhatCrossesTheKernelOnce) {
  const TensorProgram p = program_of(kChain);
  const CostModel cost(p, slow());
  const std::vector<ExprId> a{0}, b{1}, both{0, 1};
  const TensorId made_a = p.exprs[0].output, made_b = p.exprs[1].output;
  EXPECT_EQ(cost.estimate(a, std::vector{made_a}).bytes_read, 400);
  EXPECT_EQ(cost.estimate(b, std::vector{made_b}).bytes_read, 800);
  const Estimate together = cost.estimate(both, std::vector{made_b});
  EXPECT_EQ(together.bytes_read, 400);
  EXPECT_EQ(together.bytes_written, 400);
  EXPECT_EQ(together.flops, 200);
}

/// 2 * 8 * 2 * 4 operations at 1 Gflop/s, and at the rates of the instructions for their types.
TEST(Estimate, ProductsOfIntegersAndOfBfloat16TakeTheirInstructions) {
  const TensorProgram p = program_of(R"(program {
  input x: u8[8,2]
  input h: bf16[8,2]
  input q: i16[8,2]
  constant w: i8[2,4] = {1, 2, 3, 4, 5, 6, 7, 8}
  constant v: bf16[2,4] = {1, 2, 3, 4, 5, 6, 7, 8}
  b: i32[8,4] = contraction sum[2]:i32 i32(x[d0, r0]) * i32(w[r0, d1])
  f: f32[8,4] = contraction sum[2]:f32 f32(h[d0, r0]) * f32(v[r0, d1])
  i: i32[8,4] = contraction sum[2]:i32 i32(q[d0, r0]) * i32(w[r0, d1])
  output b as b
  output f as f
  output i as i
})");
  const auto us = [&](size_t e, std::vector<std::string> features) {
    Target t = slow();
    t.kind = Target::Kind::kCpu;
    t.features = std::move(features);
    return arithmetic_us(p, p.exprs[e], t);
  };
  EXPECT_DOUBLE_EQ(us(0, {}), 0.128 / 1.7);
  EXPECT_DOUBLE_EQ(us(2, {"avx512vnni"}), 0.128 / 1.7);
  EXPECT_DOUBLE_EQ(us(0, {"avx512vnni"}), 0.128 / 4);
  EXPECT_DOUBLE_EQ(us(1, {"avx512vnni"}), 0.128);
  EXPECT_DOUBLE_EQ(us(1, {"avx512bf16"}), 0.128 / 2);
}

/// A device's units multiply at the rate of the wider factor; without any the cores do.
TEST(Estimate, ProductsOf16BitsTakeTheUnits) {
  const TensorProgram p = program_of(R"(program {
  input x: f16[8,2]
  input h: bf16[2,4]
  input w: f16[2,4]
  a: f32[8,4] = contraction sum[2]:f32 f32(x[d0, r0]) * f32(w[r0, d1])
  b: f32[8,4] = contraction sum[2]:f32 f32(x[d0, r0]) * f32(h[r0, d1])
  output a as a
  output b as b
})");
  Target t = slow();
  t.kind = Target::Kind::kGpu;
  EXPECT_DOUBLE_EQ(arithmetic_us(p, p.exprs[0], t), 0.128);
  t.peak_f16_gflops = 16;
  t.peak_bf16_gflops = 8;
  EXPECT_DOUBLE_EQ(arithmetic_us(p, p.exprs[0], t), 0.128 / 16);
  EXPECT_DOUBLE_EQ(arithmetic_us(p, p.exprs[1], t), 0.128 / 8);
}

TEST(Estimate, AGatherReadsRowsNotTheTable) {
  const TensorProgram p = program_of(kChain);
  const std::vector<ExprId> gather{2};
  EXPECT_EQ(CostModel(p, slow()).estimate(gather, std::vector{p.exprs[2].output}).bytes_read,
            10 * 10 * 4 + 10 * 8);
}

}  // namespace
}  // namespace weft
