#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernel/kernel_function.h"

namespace weft {
namespace {

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span<T>(values));
}

KernelFunction parsed(const char* text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return std::move(*kernel);
}

TEST(ExecuteKernel, CarriesValuesThroughLoopsAndExchangesThem) {
  const KernelFunction kernel = parsed(R"(kernel "fibonacci" {
    arguments 1
    buffer 0 "y" output i64[4] align 8
    phase 3 (%0, %1) {
      %2: i64 = const 1
      %3: i64 = const 0
      %4: i64 = argument 0
      %5: i64, %6: i64 = for (%7: i64 = %3 to %4 step %2, %8: i64 = %3, %9: i64 = %2) {
        %10: i64 = apply add %8, %9
        yield %9, %10
      }
      store 0[%1], %5
    }
  })");
  std::vector<int64_t> y(4, -1);
  const Status status = execute_kernel(kernel, {bytes_of(y)}, {30});
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(y, (std::vector<int64_t>{-1, -1, -1, 832040}));
}

TEST(ExecuteKernel, MaskedLanesTouchNothing) {
  const KernelFunction kernel = parsed(R"(kernel "tail" {
    buffer 0 "x" input f32[5] align 4
    buffer 1 "y" output f32[5] align 4
    phase 1 (%0, %1) {
      %2: i64 = const 1
      %3: boolx4 = lane_mask %2
      %4: i64 = const 4
      %5: f32x4 = load 0[%4] mask %3 else 9
      %6: f32 = reduce_lanes sum %5
      %7: f32x4 = broadcast %6
      store 1[%4], %7 mask %3
    }
  })");
  std::vector<float> x{1, 2, 3, 4, 5}, y(5, 0.5f);
  ASSERT_TRUE(execute_kernel(kernel, {bytes_of(x), bytes_of(y)}, {}).ok());
  EXPECT_EQ(y, (std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f, 32.0f}));
}

TEST(ExecuteKernel, ReducesHalvesFirst) {
  // (1 + 1e8) + (1 - 1e8) rather than ((1 + 1) + 1e8) - 1e8.
  const KernelFunction kernel = parsed(R"(kernel "sum" {
    buffer 0 "x" input f32[4] align 4
    buffer 1 "y" output f32[1] align 4
    phase 1 (%0, %1) {
      %2: f32x4 = load 0[%0]
      %3: f32 = reduce_lanes sum %2
      store 1[%0], %3
    }
  })");
  std::vector<float> x{1, 1, 1e8f, -1e8f}, y{7};
  ASSERT_TRUE(execute_kernel(kernel, {bytes_of(x), bytes_of(y)}, {}).ok());
  EXPECT_EQ(y[0], (1.0f + 1e8f) + (1.0f - 1e8f));
}

TEST(ExecuteKernel, MakesScratchAndKeepsItForAllPhases) {
  const KernelFunction kernel = parsed(R"(kernel "two" {
    scratch 64
    buffer 0 "y" output i32[4] align 4
    buffer 1 "t" scratch i32[4] align 64
    phase 1 (%0, %1) {
      %2: i32x4 = ramp
      store 1[%0], %2
    }
    phase 1 (%3, %4) {
      %5: i32x4 = load 1[%3]
      %6: i32x4 = shuffle %5, %5 [3, 2, 1, 0]
      store 0[%3], %6
    }
  })");
  std::vector<int32_t> y(4, -1);
  ASSERT_TRUE(execute_kernel(kernel, {bytes_of(y)}, {}).ok());
  EXPECT_EQ(y, (std::vector<int32_t>{3, 2, 1, 0}));
}

TEST(ExecuteKernel, ReportsAnAccessOutsideABuffer) {
  const KernelFunction kernel = parsed(R"(kernel "beyond" {
    buffer 0 "x" input f32[6] align 4
    buffer 1 "y" output f32[8] align 4
    phase 1 (%0, %1) {
      %2: i64 = const 4
      %3: f32x4 = load 0[%2]
      store 1[%0], %3
    }
  })");
  std::vector<float> x(6, 1.5f), y(8, 2.5f);
  const Status status = execute_kernel(kernel, {bytes_of(x), bytes_of(y)}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              testing::HasSubstr("load at 6 of buffer 'x', which has 6 elements"));
  EXPECT_FALSE(execute_kernel(kernel, {bytes_of(x)}, {}).ok());
}

}  // namespace
}  // namespace weft
