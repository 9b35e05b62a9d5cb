#include "codegen/cuda/emit_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/index_facts.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/scalar_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

KernelFunction kernel_of(const std::string& text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return std::move(*kernel);
}

TEST(EmitCuda, WritesOneStatementALine) {
  const CudaKernel cuda = emit_cuda(kernel_of(R"(kernel "scale by two" {
    gpu blocks 4 warps 2 per_sm 3 shared 0
    buffer 0 "x" input f32[1024] align 16
    buffer 1 "y" output f32[1024] align 16
    phase 4 (%0, %1) {
      %2: i64 = position lane
      %3: i64 = const 4
      %4: i64 = apply mul %2, %3
      %5: i64 = const 256
      %6: i64 = apply mul %0, %5
      %7: i64 = apply add %6, %4
      %8: f32x4 = load 0[%7]
      %9: f32x4 = const 2
      %10: f32x4 = apply mul %8, %9
      store 1[%7], %10
    } })"));
  EXPECT_EQ(cuda.name, "scale_by_two");
  EXPECT_EQ(cuda.threads, 64);
  EXPECT_EQ(cuda.blocks, 4);
  EXPECT_FALSE(cuda.grid_barrier);
  EXPECT_EQ(cuda.text, R"(#include "weft_cuda.h"
WF_KERNEL(scale_by_two, 64, 3)(const float* __restrict__ b0, float* __restrict__ b1) {
  {
    const s32 v0 = (s32)wf_block_x();
    const s32 v1 = v0 + 1;
    const s32 v2 = (s32)wf_lane();
    const s32 v4 = v2 * 4;
    const s32 v6 = v0 * 256;
    const s32 v7 = v6 + v4;
    const vec<float, 4> t8_0 = wf_load_ro<4>(b0 + v7);
    const float v8_0 = t8_0[0];
    const float v8_1 = t8_0[1];
    const float v8_2 = t8_0[2];
    const float v8_3 = t8_0[3];
    const float v10_0 = v8_0 * 2.0f;
    const float v10_1 = v8_1 * 2.0f;
    const float v10_2 = v8_2 * 2.0f;
    const float v10_3 = v8_3 * 2.0f;
    vec<float, 4> st0;
    st0[0] = v10_0;
    st0[1] = v10_1;
    st0[2] = v10_2;
    st0[3] = v10_3;
    wf_store(b1 + v7, st0);
  }
}
WF_EXPORT(scale_by_two)
)");
}

/// A load of 4 elements at lane * `step` from a buffer aligned to `align` bytes.
std::string load_of_four(int step, int align) {
  return emit_cuda(kernel_of(R"(kernel "k" {
    gpu blocks 1 warps 1 per_sm 0 shared 0
    buffer 0 "x" input f32[4096] align )" +
                             std::to_string(align) + R"(
    buffer 1 "y" output f32[4096] align 16
    phase 1 (%0, %1) {
      %2: i64 = position lane
      %3: i64 = const )" + std::to_string(step) +
                             R"(
      %4: i64 = apply mul %2, %3
      %5: f32x4 = load 0[%4]
      store 1[%2], %5
    } })"))
      .text;
}

TEST(EmitCuda, AccessesAreAsWideAsAlignmentIsProven) {
  EXPECT_THAT(load_of_four(4, 16), HasSubstr("wf_load_ro<4>"));
  EXPECT_THAT(load_of_four(6, 16), HasSubstr("wf_load_ro<2>"));
  EXPECT_THAT(load_of_four(4, 8), HasSubstr("wf_load_ro<2>"));
  EXPECT_THAT(load_of_four(3, 16), Not(HasSubstr("wf_load")));
  EXPECT_THAT(load_of_four(4, 4), Not(HasSubstr("wf_load")));
}

/// Lanes of one condition are loaded together, as words that are 0 where it does not hold.
TEST(EmitCuda, WholeWordsAreMasked) {
  const auto masked = [](const std::string& lanes, const std::string& filler) {
    return emit_cuda(kernel_of(R"(kernel "k" {
    gpu blocks 1 warps 1 per_sm 0 shared 0
    buffer 0 "x" input f16[4096] align 16
    buffer 1 "y" output f16[4096] align 16
    phase 1 (%0, %1) {
      %2: i64 = position lane
      %3: i64 = const 4
      %4: i64 = apply mul %2, %3
      %5: bool = apply lt %0, %2
      %6: boolx4 = )" + lanes + R"(
      %7: f16x4 = load 0[%4] mask %6 else )" +
                               filler + R"(
      store 1[%4], %7
    } })"))
        .text;
  };
  EXPECT_THAT(masked("broadcast %5", "0"), HasSubstr("wf_load_ro_if<4>(v5, b0 + v4)"));
  EXPECT_THAT(masked("broadcast %5", "1"), Not(HasSubstr("wf_load_ro_if")));
  EXPECT_THAT(masked("lane_mask %2", "0"), Not(HasSubstr("wf_load_ro_if")));
}

TEST(EmitCuda, LoopsExchangeTheirCarriesAtOnce) {
  const std::string text = emit_cuda(kernel_of(R"(kernel "k" {
    gpu blocks 1 warps 1 per_sm 0 shared 0
    buffer 0 "y" output f32[2] align 16
    phase 1 (%0, %1) {
      %2: i64 = const 0
      %3: i64 = const 1
      %4: i64 = const 9
      %5: f32 = const 1
      %6: f32 = const 2
      %10: f32, %11: f32 = for (%7: i64 = %2 to %4 step %3, %8: f32 = %5, %9: f32 = %6) {
        yield %9, %8
      }
      store 0[%2], %10
      store 0[%3], %11
    } })"))
                               .text;
  EXPECT_THAT(text, HasSubstr("const auto c0 = v8;\n      v8 = v9;\n      v9 = c0;"));
}

TEST(EmitCuda, PhasesMeetAtABarrierOfTheGrid) {
  const CudaKernel cuda = emit_cuda(kernel_of(R"(kernel "k" {
    gpu blocks 2 warps 1 per_sm 1 shared 0
    buffer 0 "y" output f32[4] align 16
    buffer 1 "w" workspace f32[4] align 16
    phase 4 (%0, %1) { %2: f32 = const 1 store 1[%0], %2 }
    phase 2 (%3, %4) { %5: f32 = load 1[%3] store 0[%3], %5 }
  })"));
  EXPECT_TRUE(cuda.grid_barrier);
  // What is stored behind a barrier may lie where something else was in front of it.
  EXPECT_THAT(cuda.text, HasSubstr("(float* b0, float* b1, u32* barrier)"));
  EXPECT_THAT(cuda.text, HasSubstr("wf_sync_grid(barrier);"));
  EXPECT_THAT(cuda.text, HasSubstr("(s32)((s64)wf_block_x() * 4 / 2)"));
}

TEST(EmitCuda, BlocksOfAClusterReadEachOther) {
  const CudaKernel cuda = emit_cuda(kernel_of(R"(kernel "k" {
    gpu blocks 2 warps 1 per_sm 1 shared 16 cluster 2
    buffer 0 "y" output f32[2] align 16
    buffer 1 "s" shared f32[1] align 16
    phase 2 (%0, %1) {
      %2: i64 = const 0
      %3: f32 = const 1
      store 1[%2], %3
      barrier cluster
      %4: f32 = load_cluster 1[%2] of %0
      barrier cluster
      store 0[%0], %4
    }
  })"));
  EXPECT_EQ(cuda.cluster, 2);
  EXPECT_FALSE(cuda.grid_barrier);
  EXPECT_THAT(cuda.text, HasSubstr("wf_sync_cluster();"));
  EXPECT_THAT(cuda.text, HasSubstr("const float v4 = wf_cluster_map(b1 + 0, (u32)v0)[0];"));
}

TEST(IndexFacts, BoundAndDivideWhatFollowsFromPositions) {
  const KernelFunction kernel = kernel_of(R"(kernel "k" {
    gpu blocks 100 warps 4 per_sm 0 shared 0
    buffer 0 "y" output f32[1] align 16
    phase 100 (%0, %1) {
      %2: i64 = position warp
      %3: i64 = const 128
      %4: i64 = apply mul %2, %3
      %5: i64 = const 512
      %6: i64 = apply mul %0, %5
      %7: i64 = apply add %6, %4
      %8: i64 = apply div %7, %3
      %9: i64 = apply rem %7, %5
      %10: i64 = const 5000000000
      %11: i64 = apply add %7, %10
      %12: f32 = const 0
      store 0[%2], %12
    } })");
  const std::vector<IndexFact> facts = derive_index_facts(kernel);
  EXPECT_EQ(facts[7].range, (Interval{0, 99 * 512 + 384}));
  EXPECT_EQ(facts[7].divisor, 128);
  EXPECT_EQ(facts[8].range, (Interval{0, 399}));
  EXPECT_EQ(facts[9].range, (Interval{0, 511}));
  EXPECT_TRUE(facts[9].narrow());
  EXPECT_FALSE(facts[11].narrow());
}

TEST(ScalarText, SaysWhatTheOperationsMean) {
  const auto text = [](ScalarOp op, const std::vector<std::string>& x, DType type, DType result) {
    return cuda_scalar_text(op, x, type, result);
  };
  const DType f32 = DType::kF32, f16 = DType::kF16, i32 = DType::kI32, f64 = DType::kF64;
  EXPECT_EQ(text(ScalarOp::kAdd, {"a", "b"}, f32, f32), "a + b");
  EXPECT_EQ(text(ScalarOp::kAdd, {"a", "b"}, i32, i32), "(s32)((u32)a + (u32)b)");
  EXPECT_EQ(text(ScalarOp::kMul, {"a", "b"}, f16, f16),
            "wf_to_f16(wf_to_float(a) * wf_to_float(b))");
  EXPECT_EQ(text(ScalarOp::kTanh, {"a"}, f32, f32), "tanhf(a)");
  EXPECT_EQ(text(ScalarOp::kTanh, {"a"}, f64, f64), "tanh(a)");
  EXPECT_EQ(text(ScalarOp::kMax, {"a", "b"}, f32, f32), "sc_max(a, b)");
  EXPECT_EQ(
      text(ScalarOp::kConvert, {"a"}, f32, DType::kI8),
      "sc_to_integer<s8, float>(a, (float)-128.0, (float)128.0, (s8)(1ull << 7), (s8)127ull)");
  EXPECT_EQ(cuda_literal(float_value(f32, 0.1)), "0.1f");
  EXPECT_EQ(cuda_literal(float_value(f32, 3)), "3.0f");
  EXPECT_EQ(cuda_literal(float_value(f32, -INFINITY)), "-wf_inf()");
  EXPECT_THAT(cuda_scalar_functions("x = sc_max(a, b);"), HasSubstr("T sc_max(T a, T b)"));
  EXPECT_EQ(cuda_scalar_functions("x = sc_maximum(a, b);"), "");
  EXPECT_THAT(cuda_prelude(), HasSubstr("max.NaN.f32"));
}

}  // namespace
}  // namespace weft
