#include "kernel/kernel_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

constexpr KernelOp kAllOps[] = {
#define WEFT_KERNEL_OP(id, name, operands, result, place, Payload) KernelOp::id,
#include "kernel/ops.def"
#undef WEFT_KERNEL_OP
};

TEST(KernelOp, EveryRowHasANameAndAPayloadOfItsOwn) {
  for (const KernelOp op : kAllOps) {
    EXPECT_EQ(parse_kernel_op(kernel_op_name(op)), op) << kernel_op_name(op);
    EXPECT_TRUE(payload_matches(op, default_payload(op))) << kernel_op_name(op);
  }
  EXPECT_FALSE(payload_matches(KernelOp::kLoad, StorePayload{}));
  EXPECT_FALSE(parse_kernel_op("fused").has_value());
}

TEST(KernelOp, FindsMasksAndBuffers) {
  const KernelInstruction load{KernelOp::kLoad, LoadPayload{3, {}}, {0}};
  EXPECT_EQ(mask_operand(load), std::nullopt);
  EXPECT_EQ(buffer_of(load), 3);
  const KernelInstruction store{KernelOp::kStore, StorePayload{2}, {0, 1, 5}};
  EXPECT_EQ(mask_operand(store), 2u);
  const KernelInstruction copy{KernelOp::kCopyAsync, CopyAsyncPayload{4, 1, 2}, {0, 1, 5}};
  EXPECT_EQ(mask_operand(copy), 2u);
  EXPECT_EQ(buffer_of(copy), 4);
  const KernelInstruction fma{KernelOp::kFma, NoPayload{}, {0, 1, 2}};
  EXPECT_EQ(mask_operand(fma), std::nullopt);
  EXPECT_EQ(buffer_of(fma), std::nullopt);
}

TEST(KernelOp, PayloadsAreComparedFieldByField) {
  const auto number = [](double v) { return ConstPayload{float_value(DType::kF32, v)}; };
  EXPECT_TRUE(same_payload(number(1), number(1)));
  EXPECT_FALSE(same_payload(number(0.0), number(-0.0)));
  EXPECT_TRUE(same_payload(number(std::nan("")), number(std::nan(""))));
  EXPECT_FALSE(same_payload(ShufflePayload{{0, 1}}, ShufflePayload{{0, 2}}));
  EXPECT_FALSE(same_payload(ExtractPayload{1}, WarpXorPayload{1}));
}

KernelFunction stores_a_constant() {
  auto kernel = parse_kernel(R"(kernel "k" {
    buffer 0 "y" output f32[1] align 4
    phase 1 (%0, %1) {
      %2: f32 = const 1
      store 0[%0], %2
    }
  })");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return std::move(*kernel);
}

TEST(KernelOp, VerifierRefusesThePayloadOfAnother) {
  KernelFunction kernel = stores_a_constant();
  EXPECT_TRUE(verify_kernel(kernel).ok());
  kernel.phases[0].body.body[1].payload = LoadPayload{};
  const Status status = verify_kernel(kernel);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              testing::HasSubstr("store: holds what another instruction does"));
}

TEST(KernelOp, VerifierCountsOperandsByTheTable) {
  for (const KernelOp op : kAllOps) {
    const KernelOperands& takes = kernel_op_info(op).operands;
    if (takes.least == 0) continue;
    KernelFunction kernel = stores_a_constant();
    // Of a GPU, where most instructions may stand.
    if (kernel_op_info(op).place != KernelPlace::kCpu) kernel.warps = 1;
    auto& body = kernel.phases[0].body.body;
    body.emplace(body.begin() + 1, op, default_payload(op),
                 std::vector<Reg>(takes.least - 1, kernel.phases[0].body.parameters[0]));
    const Status status = verify_kernel(kernel);
    ASSERT_FALSE(status.ok()) << kernel_op_name(op);
    EXPECT_THAT(status.error().message, testing::HasSubstr(" operands, not "))
        << kernel_op_name(op);
  }
}

}  // namespace
}  // namespace weft
