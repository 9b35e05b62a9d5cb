// What kernels take one after another in one launch, beside numbers worked out by hand.

#include "schedule/gpu/join_kernels.h"

#include <gmock/gmock.h>

#include "schedule/gpu/repeat_kernels.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class JoinKernels : public ::testing::Test {
 protected:
  ScheduledKernel kernel_of(const std::string& text) const {
    const TensorProgram program = expressed(text);
    auto kernel = schedule_group(program, whole_group(program), target_, "k");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return kernel.ok() ? std::move(*kernel) : ScheduledKernel{};
  }
  JoinEstimate together(const std::vector<const ScheduledKernel*>& kernels) const {
    std::vector<JoinMember> members;
    for (const ScheduledKernel* kernel : kernels) {
      EXPECT_TRUE(can_join(*kernel));
      members.push_back(join_member(*kernel, target_));
      members.back().level = static_cast<int64_t>(members.size()) - 1;
    }
    const auto estimate = estimate_join(members, target_);
    EXPECT_TRUE(estimate.ok()) << estimate.error().message;
    return estimate.ok() ? *estimate : JoinEstimate{};
  }

  const Target target_ = *find_target("a100-40gb");
};

constexpr const char* kSmall = "(x: f32[64,64]) { y = tanh x : f32[64,64] } -> (y)";

/// Two launches and two drains become one of each and a barrier, which is what a drain takes.
TEST_F(JoinKernels, SavesALaunchForABarrier) {
  const ScheduledKernel kernel = kernel_of(kSmall);
  const JoinEstimate two = together({&kernel, &kernel});
  EXPECT_EQ(two.phases, 2);
  EXPECT_EQ(two.per_sm, 1);
  EXPECT_NEAR(two.saved_us, target_.launch_us, 1e-9);
  const JoinEstimate three = together({&kernel, &kernel, &kernel});
  EXPECT_EQ(three.phases, 3);
  EXPECT_NEAR(three.saved_us, 2 * target_.launch_us, 1e-9);
}

/// Blocks of few warps that all come at once take turns where as few stay as wide ones leave: a
/// turn of fewer warps than keep an SM busy takes as long as one of more.
TEST_F(JoinKernels, TurnsOfIdleBlocksTakeAsLong) {
  const ScheduledKernel kernel = kernel_of(kSmall);
  JoinMember narrow = join_member(kernel, target_);
  narrow.own.registers = 16;
  JoinMember wide = narrow;
  ScheduledKernel one_warp = kernel, many = kernel;
  one_warp.program.warps = 1;
  many.program.warps = 32;
  narrow.kernel = &one_warp;
  narrow.items = 3 * target_.sm_count;
  narrow.own.blocks_per_sm = 4;  // one turn
  wide.kernel = &many;
  wide.own.blocks_per_sm = 1;
  wide.items = 1;
  wide.level = 1;
  const auto alone = estimate_join({&narrow, 1}, target_);
  const auto both = estimate_join(std::vector<JoinMember>{narrow, wide}, target_);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  ASSERT_TRUE(both.ok()) << both.error().message;
  ASSERT_EQ(both->per_sm, 1);
  const double work = alone->microseconds - alone->start_us;
  const double rest = both->microseconds - both->start_us - target_.meeting_us(both->per_sm);
  EXPECT_NEAR(rest, 3 * work + work, 1e-6);  // three turns, and the other's
}

/// A product's tiles that stay on the device leave room for fewer blocks than rows have: these take
/// turns, and have fewer threads than the bandwidth asks for.
TEST_F(JoinKernels, IdleThreadsAndTurnsCost) {
  const ScheduledKernel small = kernel_of(kSmall);
  const ScheduledKernel product = kernel_of(R"(
(x: f16[2048,4096], w: f16[4096,2048]) {
  y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f16[2048,2048]
} -> (y))");
  const ScheduledKernel large =
      kernel_of("(x: f32[4096,4096]) { y = tanh x : f32[4096,4096] } -> (y)");
  const JoinEstimate apart = together({&large, &small});
  const JoinEstimate beside = together({&large, &product});
  EXPECT_LT(beside.blocks, apart.blocks);
  EXPECT_LT(beside.saved_us, apart.saved_us - 1);
}

/// Kernels between the same two barriers wait for memory at the same time, and share its bandwidth
/// only as far as it is less than all of them ask for.
TEST_F(JoinKernels, SmallKernelsBesideEachOtherWaitTogether) {
  const ScheduledKernel kernel = kernel_of(kSmall);
  std::vector<JoinMember> members(10, join_member(kernel, target_));
  const auto one = estimate_join({members.data(), 1}, target_);
  const auto ten = estimate_join(members, target_);
  ASSERT_TRUE(one.ok() && ten.ok());
  EXPECT_EQ(ten->phases, 1);
  EXPECT_LT(ten->microseconds - ten->start_us, 2.5 * (one->microseconds - one->start_us));
}

/// What iterations read again comes out of the second-level cache where that holds all of it.
TEST_F(JoinKernels, IterationsReadWhatTheCacheHolds) {
  const ScheduledKernel kernel = kernel_of(R"(
(w: f32[2048,1024], h: f32[1024]) {
  y = dot_general w, h, lhs_contract={1}, rhs_contract={0} : f32[2048]
} -> (y))");
  const std::vector<JoinMember> members(1, join_member(kernel, target_));
  const auto held = estimate_join(members, target_, target_.l2_bytes / 2);
  const auto lost = estimate_join(members, target_, 4 * target_.l2_bytes);
  ASSERT_TRUE(held.ok() && lost.ok());
  const double from_memory = 8.4e6 / (target_.bandwidth_gb_per_s(4 * target_.l2_bytes) * 1e3);
  EXPECT_GT(lost->microseconds - lost->start_us, from_memory);
  EXPECT_LT(held->microseconds - held->start_us, from_memory);
}

/// A loop's work is its own, as its barriers are: the first is the one behind what stands before
/// it, the last the one in front of what stands behind. Where it had a block of its own, steps
/// begin to wait for the grid.
TEST_F(JoinKernels, LoopsBringTheirBarriers) {
  const ScheduledKernel small = kernel_of(kSmall);
  const auto loop_of = [&](const ScheduledKernel& once, int64_t trips) {
    std::vector<JoinMember> members(1, join_member(once, target_));
    const auto estimate = estimate_join(members, target_);
    EXPECT_TRUE(estimate.ok());
    using Kind = RepeatedParameter::Kind;
    auto loop = repeat_kernels(members, {{once.parameters[1]}}, *estimate, "loop",
                               {{once.parameters[0], {.kind = Kind::kCarried, .carry = 0}},
                                {once.parameters[1], {.kind = Kind::kNext, .carry = 0}}},
                               trips, target_);
    EXPECT_TRUE(loop.ok()) << loop.error().message;
    return loop.ok() ? std::move(*loop) : ScheduledKernel{};
  };
  const ScheduledKernel loop = loop_of(small, 10);
  ASSERT_GT(loop.program.blocks.constant(), 1);
  const JoinEstimate alone = together({&loop});
  EXPECT_EQ(alone.barriers, 11);
  EXPECT_NEAR(alone.microseconds, loop.estimate.microseconds, target_.barrier_us + 1e-9);
  const JoinEstimate three = together({&small, &loop, &small});
  EXPECT_EQ(three.phases, 3);
  EXPECT_EQ(three.barriers, 11);  // none beside those of the loop
  EXPECT_GT(three.saved_us, 2 * target_.launch_us - 1e-9);
  // On one block its steps waited for their own threads alone.
  const ScheduledKernel tiny =
      loop_of(kernel_of("(x: f32[8,8]) { y = tanh x : f32[8,8] } -> (y)"), 10);
  ASSERT_EQ(tiny.program.blocks.constant(), 1);
  const double apart = together({&tiny}).microseconds;
  EXPECT_GT(together({&tiny, &small}).microseconds, apart + 9 * target_.barrier_us);
}

TEST_F(JoinKernels, RefusesWhatABlockKeepsAcrossABarrier) {
  const ScheduledKernel rows = kernel_of(R"(
(x: f32[8,60000]) {
  m = reduce x, axes={1}, combiner=max : f32[8]
  b = broadcast m, dims={0} : f32[8,60000]
  y = sub x, b : f32[8,60000]
} -> (y))");
  const Decision joins = can_join(rows);
  ASSERT_FALSE(joins);
  EXPECT_THAT(joins.reason(), HasSubstr("keeps values across a barrier"));
}

}  // namespace
}  // namespace weft
