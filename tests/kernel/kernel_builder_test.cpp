#include "kernel/kernel_builder.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

KernelFunction two_buffers() {
  KernelFunction kernel;
  kernel.name = "k";
  kernel.buffers.push_back({"x", DType::kF32, KernelBuffer::Kind::kInput, 64, 0, 64});
  kernel.buffers.push_back({"y", DType::kF32, KernelBuffer::Kind::kOutput, 64, 0, 64});
  return kernel;
}

constexpr DType kI64 = DType::kI64;

TEST(KernelBuilder, FoldsOffsetsToOneVariablePartAndOneConstant) {
  KernelFunction kernel = two_buffers();
  KernelBuilder b(kernel);
  const auto [begin, end] = b.begin_phase(4);
  const Reg four = b.int_constant(4);
  const Reg first = b.apply(ScalarOp::kAdd, {begin, four}, kI64);
  const Reg second = b.apply(ScalarOp::kAdd, {b.int_constant(8), first}, kI64);
  const Reg third = b.apply(ScalarOp::kSub, {second, four}, kI64);
  EXPECT_EQ(second, b.apply(ScalarOp::kAdd, {begin, b.int_constant(12)}, kI64));
  EXPECT_EQ(third, b.apply(ScalarOp::kAdd, {b.int_constant(8), begin}, kI64));
  EXPECT_EQ(begin, b.apply(ScalarOp::kSub, {first, four}, kI64));
  EXPECT_EQ(b.apply(ScalarOp::kMul, {four, b.int_constant(5)}, kI64), b.int_constant(20));
  EXPECT_EQ(b.apply(ScalarOp::kDiv, {b.int_constant(-7), b.int_constant(2)}, kI64),
            b.int_constant(-3));
  EXPECT_EQ(b.apply(ScalarOp::kSub, {end, end}, kI64), b.int_constant(0));
}

TEST(KernelBuilder, KeepsFloatOperationsThatChangeZerosOrNan) {
  KernelFunction kernel = two_buffers();
  KernelBuilder b(kernel);
  const auto [begin, end] = b.begin_phase(4);
  const Reg x = b.load(0, begin, 16);
  const Reg zero = b.constant({DType::kF32, 16}, float_value(DType::kF32, 0));
  const Reg one = b.constant({DType::kF32, 1}, float_value(DType::kF32, 1));
  EXPECT_NE(x, b.apply(ScalarOp::kAdd, {x, zero}, DType::kF32));
  EXPECT_NE(zero, b.apply(ScalarOp::kMul, {x, zero}, DType::kF32));
  EXPECT_EQ(x, b.apply(ScalarOp::kMul, {x, one}, DType::kF32));
  const Reg minus_zero = b.constant({DType::kF32, 16}, float_value(DType::kF32, -0.0));
  EXPECT_NE(zero, minus_zero);
}

/// A load puts 0 where its mask is not set.
TEST(KernelBuilder, ChoosesNoZerosThatALoadHasPut) {
  KernelFunction kernel = two_buffers();
  KernelBuilder b(kernel);
  const auto [begin, end] = b.begin_phase(4);
  const Reg inside = b.apply(ScalarOp::kLt, {begin, end}, DType::kBool);
  const Reg other = b.apply(ScalarOp::kLt, {end, begin}, DType::kBool);
  const auto number = [&](DType type, double value) {
    return b.constant({type, 4}, float_value(type, value));
  };
  const auto chosen = [&](Reg condition, Reg value, Reg otherwise) {
    return b.apply(ScalarOp::kSelect, {condition, value, otherwise}, b.type(value).dtype);
  };
  const Reg x = b.load(0, begin, 4, inside);
  const Reg wide = b.apply(ScalarOp::kConvert, {x}, DType::kF64);
  EXPECT_EQ(x, chosen(inside, x, number(DType::kF32, 0)));
  EXPECT_EQ(wide, chosen(inside, wide, number(DType::kF64, 0)));
  EXPECT_NE(x, chosen(other, x, number(DType::kF32, 0)));
  EXPECT_NE(x, chosen(inside, x, number(DType::kF32, -0.0)));
  EXPECT_NE(x, chosen(inside, x, number(DType::kF32, 1)));
  const Reg ones = b.load(0, begin, 4, inside, float_value(DType::kF32, 1));
  EXPECT_NE(ones, chosen(inside, ones, number(DType::kF32, 0)));
  const Reg twice = b.apply(ScalarOp::kAdd, {x, number(DType::kF32, 1)}, DType::kF32);
  EXPECT_NE(twice, chosen(inside, twice, number(DType::kF32, 0)));
}

TEST(KernelBuilder, ReusesPureInstructionsOfEnclosingBlocksOnly) {
  KernelFunction kernel = two_buffers();
  KernelBuilder b(kernel);
  const auto [begin, end] = b.begin_phase(4);
  const Reg outside = b.apply(ScalarOp::kMul, {begin, b.int_constant(3)}, kI64);
  Reg inside = kNoReg;
  b.for_loop(begin, end, 2, {}, [&](Reg iv, const std::vector<Reg>&) {
    EXPECT_EQ(outside, b.apply(ScalarOp::kMul, {begin, b.int_constant(3)}, kI64));
    inside = b.apply(ScalarOp::kMul, {end, b.int_constant(3)}, kI64);
    EXPECT_EQ(inside, b.apply(ScalarOp::kMul, {b.int_constant(3), end}, kI64));
    b.store(1, iv, b.load(0, iv, 4));
    return std::vector<Reg>{};
  });
  EXPECT_NE(inside, b.apply(ScalarOp::kMul, {end, b.int_constant(3)}, kI64));
  b.end_phase();
  EXPECT_TRUE(verify_kernel(kernel).ok());
}

TEST(KernelBuilder, WritesShortLoopsAndDecidedBranchesInPlace) {
  KernelFunction kernel = two_buffers();
  KernelBuilder b(kernel);
  b.begin_phase(1);
  const Reg x = b.load(0, b.int_constant(0), 4);
  const auto once = b.for_loop(
      b.int_constant(6), b.int_constant(9), 4, {x}, [&](Reg iv, const std::vector<Reg>& carry) {
        EXPECT_EQ(iv, b.int_constant(6));
        return std::vector<Reg>{b.apply(ScalarOp::kAdd, {carry[0], carry[0]}, DType::kF32)};
      });
  const auto never =
      b.for_loop(b.int_constant(9), b.int_constant(6), 1, once,
                 [](Reg, const std::vector<Reg>&) { return std::vector<Reg>{kNoReg}; });
  EXPECT_EQ(never, once);
  const Reg yes = b.constant({DType::kBool, 1}, int_value(DType::kBool, 1));
  const auto picked =
      b.if_then_else(yes, [&] { return std::vector<Reg>(once); }, [&] { return std::vector{x}; });
  b.store(1, b.int_constant(0), picked[0]);
  b.end_phase();
  EXPECT_EQ(print(kernel), R"(kernel "k" {
  buffer 0 "x" input f32[64] align 64
  buffer 1 "y" output f32[64] align 64
  phase 1 (%0, %1) {
    %2: i64 = const 0
    %3: f32x4 = load 0[%2]
    %4: i64 = const 6
    %5: i64 = const 9
    %6: f32x4 = apply add %3, %3
    %7: bool = const 1
    store 1[%2], %6
  }
}
)");
}

TEST(KernelBuilder, DropsMasksThatAreDecided) {
  KernelFunction kernel = two_buffers();
  KernelBuilder b(kernel);
  const auto [begin, end] = b.begin_phase(1);
  const Reg all = b.lane_mask(b.int_constant(16), 16);
  const Reg none = b.lane_mask(b.int_constant(0), 16);
  const Reg x = b.load(0, begin, 16, all, float_value(DType::kF32, 7));
  const Reg filled = b.load(0, begin, 16, none, float_value(DType::kF32, 7));
  EXPECT_EQ(filled, b.constant({DType::kF32, 16}, float_value(DType::kF32, 7)));
  b.store(1, begin, x, none);
  b.store(1, begin, x, all);
  b.end_phase();
  EXPECT_EQ(kernel.phases[0].body.body.back().operands.size(), 2u);
  EXPECT_TRUE(verify_kernel(kernel).ok());
}

}  // namespace
}  // namespace weft
