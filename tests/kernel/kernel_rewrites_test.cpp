#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernel/divide_by_invariants.h"
#include "kernel/kernel_function.h"
#include "kernel/prefetch_epilogues.h"
#include "kernel/prefetch_panels.h"
#include "kernel/prefetch_rows.h"
#include "kernel/prefetch_windows.h"
#include "kernel/shorten_exponentials.h"
#include "kernel/stream_outputs.h"
#include "kernel/tabulate.h"

namespace weft {
namespace {

KernelFunction kernel_of(const std::string& text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return std::move(*kernel);
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

Target small_machine() {
  Target target;
  target.threads = 1;
  target.l2_bytes = 64 << 10;
  target.l3_bytes = 256 << 10;
  return target;
}

/// Of a kernel that computes nothing but with its buffers: the interpreter refuses requests for
/// what lies far from them.
void expect_requests_inside(const KernelFunction& kernel) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> buffers;
  for (const KernelBuffer& b : kernel.buffers)
    memory.emplace_back(static_cast<size_t>(b.elements * byte_size(b.dtype)));
  buffers.assign(memory.begin(), memory.end());
  const Status status = execute_kernel(kernel, buffers, {});
  EXPECT_TRUE(status.ok()) << status.error().message;
}

// Element 0 of the second buffer divides the first.
constexpr const char* kDivision = R"(kernel "k" {
  buffer 0 "x" input f32[64] align 4
  buffer 1 "b" input f32[1] align 4
  buffer 2 "y" output f32[64] align 4
  phase 1 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 64
    %4: i64 = const 16
    %5: f32 = load 1[%2]
    for (%6: i64 = %2 to %3 step %4) {
      %7: f32x16 = load 0[%6]
      %8: f32x16 = broadcast %5
      %9: f32x16 = apply div %7, %8
      store 2[%6], %9
    }
  }
}
)";

std::vector<float> divide(const KernelFunction& kernel, std::vector<float> x, float b) {
  std::vector<float> y(64);
  x.resize(64);
  const auto bytes = [](auto* data, size_t n) {
    return std::span(reinterpret_cast<std::byte*>(data), n * sizeof(float));
  };
  const Status status =
      execute_kernel(kernel, {bytes(x.data(), 64), bytes(&b, 1), bytes(y.data(), 64)}, {});
  EXPECT_TRUE(status.ok());
  return y;
}

bool same_bits(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(DivideByInvariants, GivesTheBitsOfADivision) {
  KernelFunction kernel = kernel_of(kDivision);
  ASSERT_TRUE(divide_by_invariants(kernel));
  EXPECT_TRUE(verify_kernel(kernel).ok());
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  uint32_t state = 7;
  for (const float b : {3.0F, 7.0F, 0.1F, -1.7F, 1023.0F, 0x1.fffffep0F, 0x1.000002p0F, 0x1p-101F,
                        0x1p101F, 0.0F, inf, nan, 3e38F, 1e-40F}) {
    std::vector<float> x{0.0F, -0.0F, inf, -inf, nan, 1.0F, 0x1.fffffep0F, 3e38F, 0x1p-99F};
    while (x.size() < 64) {
      state = state * 1664525 + 1013904223;
      x.push_back(std::ldexp(1.0F + static_cast<float>(state >> 9) * 0x1p-23F,
                             static_cast<int>(state % 60) - 30));
    }
    const std::vector<float> y = divide(kernel, x, b);
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_TRUE(same_bits(y[i], x[i] / b)) << x[i] << " / " << b << " = " << y[i];
    }
  }
}

TEST(DivideByInvariants, StaysWithinTwoUlpWhereTheRemainderUnderflows) {
  KernelFunction kernel = kernel_of(kDivision);
  ASSERT_TRUE(divide_by_invariants(kernel));
  std::vector<float> x;
  for (int i = 0; i < 64; ++i)
    x.push_back(std::ldexp(1.0F + static_cast<float>(i) / 67, -100 - i % 49));
  for (const float b : {3.0F, 0.7F, 1e20F}) {
    const std::vector<float> y = divide(kernel, x, b);
    for (size_t i = 0; i < y.size(); ++i) {
      const float q = x[i] / b, ulp = std::nextafter(q, std::numeric_limits<float>::infinity()) - q;
      EXPECT_LE(std::abs(y[i] - q), 2 * ulp) << x[i] << " / " << b;
    }
  }
}

TEST(DivideByInvariants, DividesOutsideOfTheLoopOnce) {
  KernelFunction kernel = kernel_of(kDivision);
  ASSERT_TRUE(divide_by_invariants(kernel));
  const std::string text = print(kernel);
  // The reciprocal, and the loop for divisors out of range.
  EXPECT_EQ(count(text, "apply div"), 2U) << text;
  EXPECT_LT(text.find("apply div"), text.find("for (")) << text;
}

TEST(DivideByInvariants, FastMathIsAProductWithinOneAndAHalfUlp) {
  KernelFunction kernel = kernel_of(kDivision);
  EXPECT_EQ(divide_by_invariants(kernel, /*fast_math=*/true), 1);
  EXPECT_TRUE(verify_kernel(kernel).ok());
  EXPECT_EQ(count(print(kernel), "for ("), 1U) << "no second loop";
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(std::ldexp(1.0F + static_cast<float>(i) / 67, i - 32));
  for (const float b : {3.0F, -0.7F, 1e20F}) {
    const std::vector<float> y = divide(kernel, x, b);
    for (size_t i = 0; i < y.size(); ++i) {
      const double q = static_cast<double>(x[i]) / static_cast<double>(b);
      EXPECT_NEAR(y[i], q, std::abs(q) * 0x1.8p-23) << x[i] << " / " << b;
    }
  }
}

TEST(ShortenExponentials, OnlyWhereTheRecipeHoldsForEveryArgument) {
  std::string text = kDivision;
  text.replace(text.find("apply div %7, %8"), 16, "apply exp %7    ");
  KernelFunction kernel = kernel_of(text);
  Target target = small_machine();
  EXPECT_EQ(shorten_exponentials(kernel, target), 0);
  target.features = {"avx512dq", "avx512f", "avx512vl"};
  EXPECT_EQ(shorten_exponentials(kernel, target), 1);
  EXPECT_EQ(shorten_exponentials(kernel, target), 0);
}

TEST(DivideByInvariants, LeavesDivisorsThatTheLoopMakes) {
  std::string text = kDivision;
  text.replace(text.find("broadcast %5"), 12, "load 0[%6]  ");
  KernelFunction kernel = kernel_of(text);
  EXPECT_FALSE(divide_by_invariants(kernel));
}

// f32(x & 15) - 8, times x itself.
constexpr const char* kNibbles = R"(kernel "k" {
  buffer 0 "x" input i32[16] align 4
  buffer 1 "y" output f32[16] align 4
  phase 1 (%0, %1) {
    %2: i32x16 = load 0[%0]
    %3: i32x16 = const 15
    %4: f32x16 = const 8
    %5: i32x16 = apply and %2, %3
    %6: f32x16 = apply convert %5
    %7: f32x16 = apply sub %6, %4
    %8: f32x16 = apply convert %2
    %9: f32x16 = apply mul %7, %8
    store 1[%0], %9
  }
}
)";

Target with_tables() {
  Target target = small_machine();
  target.vector_bytes = 64;
  target.features = {"avx2", "avx512vl"};
  return target;
}

std::vector<float> made_of_nibbles(const KernelFunction& kernel) {
  std::vector<int32_t> x;
  for (int32_t i = 0; i < 16; ++i) x.push_back(i * 37 - 200);
  std::vector<float> y(16);
  const std::vector<std::span<std::byte>> buffers = {std::as_writable_bytes(std::span(x)),
                                                     std::as_writable_bytes(std::span(y))};
  const Status status = execute_kernel(kernel, buffers, {});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return y;
}

TEST(Tabulate, LooksUpWhatIsMadeOfFourBits) {
  KernelFunction kernel = kernel_of(kNibbles);
  const std::vector<float> expected = made_of_nibbles(kernel);
  EXPECT_EQ(tabulate(kernel, with_tables()), 1);
  EXPECT_TRUE(verify_kernel(kernel).ok());
  const std::string text = print(kernel);
  EXPECT_EQ(count(text, "look_up %2 [-1056964608, -1059061760,"), 1U) << text;
  EXPECT_EQ(count(text, "apply sub") + count(text, "apply and"), 0U) << text;
  EXPECT_EQ(count(text, "apply convert %2"), 1U) << text;
  EXPECT_EQ(made_of_nibbles(kernel), expected);
  EXPECT_EQ(tabulate(kernel, with_tables()), 0);
}

TEST(Tabulate, RepeatsTheEntriesOfFewerBits) {
  std::string text = kNibbles;
  text.replace(text.find("const 15"), 8, "const 3 ");
  KernelFunction kernel = kernel_of(text);
  const std::vector<float> expected = made_of_nibbles(kernel);
  EXPECT_EQ(tabulate(kernel, with_tables()), 1);
  EXPECT_EQ(made_of_nibbles(kernel), expected);
}

TEST(Tabulate, LeavesWhatATableDoesNotHoldOrATargetDoesNotLookUp) {
  const auto left = [](const std::string& from, const std::string& to, const Target& target) {
    std::string text = kNibbles;
    text.replace(text.find(from), from.size(), to);
    KernelFunction kernel = kernel_of(text);
    EXPECT_EQ(tabulate(kernel, target), 0) << text;
    EXPECT_EQ(print(kernel), text);
  };
  left("const 15", "const 16", with_tables());
  left("apply sub %6, %4", "apply log %4", with_tables());      // of nothing that is looked up
  left("apply convert %5", "apply convert %2", with_tables());  // but for the bits alone
  left("x", "x", small_machine());
  Target narrow = with_tables();
  narrow.vector_bytes = 32;
  left("x", "x", narrow);
}

TEST(Tabulate, LeavesChainsThatMakeANan) {
  std::string text = kNibbles;
  text.replace(text.find("apply mul %7, %8"), 16, "apply sqrt %7   ");
  KernelFunction kernel = kernel_of(text);
  EXPECT_EQ(tabulate(kernel, with_tables()), 1);
  EXPECT_EQ(count(print(kernel), "apply sqrt"), 1U);
}

// Two sweeps over each row; the second stores.
constexpr const char* kRows = R"(kernel "k" {
  buffer 0 "x" input f32[65536] align 4
  buffer 1 "y" output f32[65536] align 4
  phase 64 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1024
    %4: i64 = const 16
    %5: i64 = const 1
    %6: f32x16 = const 0
    for (%7: i64 = %0 to %1 step %5) {
      %8: i64 = apply mul %7, %3
      %14: f32x16 = for (%9: i64 = %2 to %3 step %4, %10: f32x16 = %6) {
        %11: i64 = apply add %8, %9
        %12: f32x16 = load 0[%11]
        %13: f32x16 = apply add %10, %12
        yield %13
      }
      for (%15: i64 = %2 to %3 step %4) {
        %16: i64 = apply add %8, %15
        %17: f32x16 = load 0[%16]
        %18: f32x16 = apply mul %17, %14
        store 1[%16], %18
      }
    }
  }
}
)";

TEST(PrefetchRows, AsksForTheNextRowAndForTheLinesToBeStored) {
  KernelFunction kernel = kernel_of(kRows);
  ASSERT_TRUE(prefetch_rows(kernel, small_machine()));
  const Status status = verify_kernel(kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const std::string text = print(kernel);
  const size_t second = text.rfind("for (");
  const size_t store = text.find("prefetch 1["), load = text.find("prefetch 0[");
  ASSERT_NE(store, std::string::npos) << text;
  ASSERT_NE(load, std::string::npos) << text;
  EXPECT_LT(store, second) << text;
  EXPECT_GT(load, second) << text;
  EXPECT_NE(text.find(" write", store), std::string::npos) << text;
  expect_requests_inside(kernel);  // the last row's, too
  auto again = parse_kernel(text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(print(*again), text);
}

// Three taps of a window, each swept in two parts: neighbours are one sum, not rows.
TEST(PrefetchRows, LeavesSweepsOfOneSum) {
  KernelFunction kernel = kernel_of(R"(kernel "k" {
  buffer 0 "x" input f32[65536] align 4
  buffer 1 "y" output f32[64] align 4
  phase 4 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1024
    %4: i64 = const 16
    %5: i64 = const 1
    %6: f32x16 = const 0
    %7: i64 = const 3
    for (%8: i64 = %0 to %1 step %5) {
      %9: f32x16 = for (%10: i64 = %2 to %7 step %5, %11: f32x16 = %6) {
        %12: i64 = apply mul %10, %3
        %13: f32x16 = for (%14: i64 = %2 to %3 step %4, %15: f32x16 = %11) {
          %16: i64 = apply add %12, %14
          %17: f32x16 = load 0[%16]
          %18: f32x16 = apply add %15, %17
          yield %18
        }
        %19: f32x16 = for (%20: i64 = %2 to %3 step %4, %21: f32x16 = %13) {
          %22: i64 = apply add %12, %20
          %23: f32x16 = load 0[%22]
          %24: f32x16 = apply add %21, %23
          yield %24
        }
        yield %19
      }
      %25: i64 = apply mul %8, %4
      store 1[%25], %9
    }
  }
}
)");
  EXPECT_FALSE(prefetch_rows(kernel, small_machine()));
}

TEST(PrefetchRows, LeavesWhatIsNear) {
  KernelFunction kernel = kernel_of(kRows);
  Target target = small_machine();
  target.l2_bytes = 16 << 20;
  EXPECT_FALSE(prefetch_rows(kernel, target));
}

// Panels of 512 steps and 32 columns under six tiles of rows; a step is two vectors.
constexpr const char* kPanels = R"(kernel "k" {
  buffer 0 "x" input f32[3072] align 4
  buffer 1 "w" input f32[131072] align 64
  buffer 2 "y" output f32[1536] align 4
  phase 8 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1
    %4: i64 = const 6
    %5: i64 = const 512
    %6: i64 = const 32
    %7: i64 = const 16384
    %8: i64 = const 16
    %9: f32x16 = const 0
    for (%10: i64 = %0 to %1 step %3) {
      %11: i64 = apply mul %10, %7
      for (%12: i64 = %2 to %4 step %3) {
        %13: i64 = apply mul %12, %5
        %14: f32x16, %15: f32x16 = for (%16: i64 = %2 to %5 step %3, %17: f32x16 = %9, %18: f32x16 = %9) {
          %19: i64 = apply add %13, %16
          %20: f32 = load 0[%19]
          %21: f32x16 = broadcast %20
          %22: i64 = apply mul %16, %6
          %23: i64 = apply add %11, %22
          %24: f32x16 = load 1[%23]
          %25: f32x16 = fma %21, %24, %17
          %26: i64 = apply add %23, %8
          %27: f32x16 = load 1[%26]
          %28: f32x16 = fma %21, %27, %18
          yield %25, %28
        }
        %29: i64 = apply mul %12, %6
        store 2[%29], %14
      }
    }
  }
}
)";

TEST(PrefetchPanels, TilesAskForWhatLiesBehindTheirPanel) {
  KernelFunction kernel = kernel_of(kPanels);
  ASSERT_TRUE(prefetch_panels(kernel, small_machine()));
  const Status status = verify_kernel(kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const std::string text = print(kernel);
  EXPECT_EQ(count(text, "prefetch 1["), 1U) << text;
  EXPECT_EQ(count(text, "prefetch"), 1U) << text;
  // Two lines a step: the first two tiles ask for 512 of them each, the others for the last ones
  // again. From step to step the request goes on by a line, 16 elements, where the load goes by 32.
  EXPECT_NE(text.find("apply min %12, "), std::string::npos) << text;
  for (const std::string number : {"const 1\n", "const 8192\n", "const -16\n", "const 16384\n"})
    EXPECT_NE(text.find(number), std::string::npos) << number << text;
  expect_requests_inside(kernel);  // the last panel's, too
}

TEST(PrefetchPanels, LeavesAPanelAlone) {
  std::string text = kPanels;
  text.replace(text.find("f32[131072]"), 11, "f32[16384]");
  text.replace(text.find("phase 8"), 7, "phase 1");
  Target target = small_machine();
  target.l1_bytes = 4 << 10;
  KernelFunction kernel = kernel_of(text);
  EXPECT_FALSE(prefetch_panels(kernel, target)) << print(kernel);
}

// Rows of 2,048 columns, of which a panel has 16: the copy of one asks for the next, which lies
// beside it in each row.
TEST(PrefetchPanels, CopiesAskForWhatTheNextOneLoads) {
  const auto prefetched = [](const std::string& into, const Target& target) {
    KernelFunction kernel = kernel_of(R"(kernel "k" {
  scratch 8256
  buffer 0 "w" input f32[262144] align 64
  buffer 1 "y" output f32[2112] align 4
  buffer 2 "panel" scratch f32[2064] align 64
  phase 128 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1
    %4: i64 = const 128
    %5: i64 = const 16
    %6: i64 = const 2048
    for (%7: i64 = %0 to %1 step %3) {
      %8: i64 = apply mul %7, %5
      for (%9: i64 = %2 to %4 step %3) {
        %10: i64 = apply mul %9, %6
        %11: i64 = apply add %10, %8
        %12: f32x16 = load 0[%11]
        %13: i64 = apply mul %9, %5
        store )" + into + R"([%13], %12
      }
      %14: f32 = load 2[%2]
      store 1[%2], %14
    }
  }
}
)");
    const bool changed = prefetch_panels(kernel, target);
    const Status status = verify_kernel(kernel);
    EXPECT_TRUE(status.ok()) << status.error().message;
    const std::string text = print(kernel);
    EXPECT_EQ(changed, text.find("prefetch 0[") != std::string::npos) << text;
    expect_requests_inside(kernel);
    return changed;
  };
  EXPECT_TRUE(prefetched("2", small_machine()));
  EXPECT_FALSE(prefetched("1", small_machine())) << "no copy to scratch";
  Target large = small_machine();
  large.l2_bytes = 16 << 20;
  EXPECT_FALSE(prefetched("2", large)) << "near";
}

TEST(PrefetchPanels, LeavesWhatIsNearAndWhatTilesMove) {
  Target target = small_machine();
  target.l2_bytes = 4 << 20;
  KernelFunction near = kernel_of(kPanels);
  EXPECT_FALSE(prefetch_panels(near, target));
  std::string text = kPanels;
  text.replace(text.find("apply add %11, %22"), 18, "apply add %13, %22");
  KernelFunction moved = kernel_of(text);
  EXPECT_FALSE(prefetch_panels(moved, small_machine()));
  std::string apart = kPanels;
  apart.replace(apart.find("%6: i64 = const 32"), 18, "%6: i64 = const 33");
  KernelFunction strided = kernel_of(apart);
  EXPECT_FALSE(prefetch_panels(strided, small_machine()));
}

// Rows of 16 pixels of 32 channels; of 16 of them, windows of three rows sum tiles of two pixels.
constexpr const char* kWindows = R"(kernel "k" {
  buffer 0 "x" input f32[16384] align 4
  buffer 1 "w" input f32[768] align 4
  buffer 2 "y" output f32[4096] align 4
  phase 16 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1
    %4: i64 = const 3
    %5: i64 = const 8
    %6: i64 = const 16
    %7: i64 = const 512
    %8: i64 = const 64
    %9: f32x16 = const 0
    for (%10: i64 = %0 to %1 step %3) {
      %11: i64 = apply mul %10, %7
      for (%12: i64 = %2 to %5 step %3) {
        %13: f32x16, %14: f32x16 = for (%15: i64 = %2 to %4 step %3, %16: f32x16 = %9, %17: f32x16 = %9) {
          %18: f32x16, %19: f32x16 = for (%20: i64 = %2 to %6 step %3, %21: f32x16 = %16, %22: f32x16 = %17) {
            %23: i64 = apply mul %15, %7
            %24: i64 = apply add %11, %23
            %25: i64 = apply mul %12, %8
            %26: i64 = apply add %24, %25
            %27: i64 = apply add %26, %20
            %28: f32 = load 0[%27]
            %29: i64 = const 32
            %30: i64 = apply add %27, %29
            %31: f32 = load 0[%30]
            %32: i64 = apply mul %15, %6
            %33: i64 = apply add %32, %20
            %34: f32x16 = load 1[%33]
            %35: f32x16 = broadcast %28
            %36: f32x16 = fma %35, %34, %21
            %37: f32x16 = broadcast %31
            %38: f32x16 = fma %37, %34, %22
            yield %36, %38
          }
          yield %18, %19
        }
        %39: i64 = apply mul %10, %6
        store 2[%39], %13
      }
    }
  }
}
)";

std::string with_windows_prefetched(const std::string& text, bool changes) {
  KernelFunction kernel = kernel_of(text);
  EXPECT_EQ(prefetch_windows(kernel, small_machine()), changes);
  const Status status = verify_kernel(kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return print(kernel);
}

TEST(PrefetchWindows, TilesAskForTheRowThatTheNextOnesTakeIn) {
  const std::string text = with_windows_prefetched(kWindows, true);
  // A line for each pixel, of which the window has 16 channels: of the row behind the third tap.
  EXPECT_EQ(count(text, "prefetch 0["), 2U) << text;
  EXPECT_LT(text.find("prefetch 0["), text.find("%13: f32x16")) << text;
  EXPECT_NE(text.find("const 1536\n"), std::string::npos) << text;
  EXPECT_NE(text.find("const 1568\n"), std::string::npos) << text;
}

TEST(PrefetchWindows, AsksForNothingBehindTheImage) {
  std::string text = kWindows;
  text.replace(text.find("f32[16384]"), 10, "f32[9216]");  // 18 rows
  KernelFunction kernel = kernel_of(text);
  ASSERT_TRUE(prefetch_windows(kernel, small_machine()));
  expect_requests_inside(kernel);
}

TEST(PrefetchWindows, OfTwoRowsEachTwoAreNew) {
  std::string text = kWindows;
  text.replace(text.find("apply mul %10, %7"), 17, "apply mul %10, %40");
  text.replace(text.find("    %8: i64"), 0, "    %40: i64 = const 1024\n");
  EXPECT_EQ(count(with_windows_prefetched(text, true), "prefetch 0["), 4U);
}

TEST(PrefetchWindows, LeavesPixelsNextToEachOther) {
  std::string text = kWindows;
  text.replace(text.find("%29: i64 = const 32"), 19, "%29: i64 = const 16");
  with_windows_prefetched(text, true);  // a tile of two: one of its lines lies behind the other
  text.replace(text.find("%20: i64 = %2 to %6"), 19, "%20: i64 = %2 to %8");
  with_windows_prefetched(text, false);  // 64 channels: four of five
}

TEST(PrefetchWindows, LeavesWindowsOfManyChannels) {
  std::string text = kWindows;
  text.replace(text.find("%20: i64 = %2 to %6"), 19, "%20: i64 = %2 to %7");
  with_windows_prefetched(text, false);
}

// Tiles of two rows of 4,096 elements, 16 columns each, to which a tensor and a bias are added. The
// columns of a tile are two vectors in one line.
constexpr const char* kEpilogue = R"(kernel "k" {
  buffer 0 "x" input f32[64] align 4
  buffer 1 "r" input f32[8192] align 4
  buffer 2 "b" input f32[8192] align 4
  buffer 3 "y" output f32[8192] align 4
  phase 256 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1
    %4: i64 = const 64
    %5: f32x8 = const 0
    for (%6: i64 = %0 to %1 step %3) {
      %7: f32x8 = for (%8: i64 = %2 to %4 step %3, %9: f32x8 = %5) {
        %10: f32 = load 0[%8]
        %11: f32x8 = broadcast %10
        %12: f32x8 = apply add %9, %11
        yield %12
      }
      %13: i64 = const 16
      %14: i64 = apply mul %6, %13
      %15: f32x8 = load 1[%14]
      %16: f32x8 = apply add %7, %15
      %17: i64 = const 8
      %18: i64 = apply add %14, %17
      %19: f32x8 = load 1[%18]
      %20: f32x8 = apply add %16, %19
      %21: i64 = const 4096
      %22: i64 = apply add %14, %21
      %23: f32x8 = load 1[%22]
      %24: f32x8 = apply add %20, %23
      %25: f32x8 = load 2[%2]
      %26: f32x8 = apply add %24, %25
      store 3[%14], %26
    }
  }
}
)";

TEST(PrefetchEpilogues, TilesAskForTheirLinesBeforeTheySum) {
  Target target = small_machine();
  target.l1_bytes = 16 << 10;
  KernelFunction kernel = kernel_of(kEpilogue);
  ASSERT_TRUE(prefetch_epilogues(kernel, target));
  const Status status = verify_kernel(kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const std::string text = print(kernel);
  EXPECT_EQ(count(text, "prefetch"), 2U) << text;
  // The addresses with it; the bias, which all tiles share, is not asked for.
  EXPECT_LT(text.find("prefetch 1[%14]"), text.find("%7: f32x8 = for")) << text;
  EXPECT_LT(text.find("prefetch 1[%22]"), text.find("%7: f32x8 = for")) << text;
}

TEST(PrefetchEpilogues, LeavesWhatIsNearAndWhatTheSumsPointTo) {
  Target target = small_machine();
  target.l1_bytes = 32 << 10;
  KernelFunction near = kernel_of(kEpilogue);
  EXPECT_FALSE(prefetch_epilogues(near, target));
  target.l1_bytes = 16 << 10;
  std::string text = kEpilogue;
  const std::string address = "%14: i64 = apply mul %6, %13";
  text.replace(text.find(address), address.size(),
               "%27: f32 = reduce_lanes sum %7\n      %28: i64 = apply convert %27\n      "
               "%14: i64 = apply add %6, %28");
  KernelFunction pointed = kernel_of(text);
  EXPECT_FALSE(prefetch_epilogues(pointed, target));
}

TEST(StreamOutputs, StoresPastTheCachesWhereTheyAreTooSmall) {
  KernelFunction kernel = kernel_of(kRows);
  EXPECT_TRUE(stream_outputs(kernel, small_machine()));
  EXPECT_EQ(count(print(kernel), "non_temporal"), 1U);
  Target target = small_machine();
  target.l3_bytes = 16 << 20;
  kernel = kernel_of(kRows);
  EXPECT_FALSE(stream_outputs(kernel, target));
}

// Two vectors of 32 bytes are a line, and what is stored of a third is none.
TEST(StreamOutputs, VectorsThatFillALineTogether) {
  const auto streamed = [](const std::string& second, const std::string& step = "16") {
    KernelFunction kernel = kernel_of(R"(kernel "k" {
  buffer 0 "x" input f32[65536] align 4
  buffer 1 "y" output f32[65536] align 4
  phase 64 (%0, %1) {
    %2: i64 = const 0
    %3: i64 = const 1024
    %4: i64 = const )" + step + R"(
    %5: i64 = const 1
    %6: i64 = const )" + second + R"(
    for (%7: i64 = %0 to %1 step %5) {
      %8: i64 = apply mul %7, %3
      for (%9: i64 = %2 to %3 step %4) {
        %10: i64 = apply add %8, %9
        %11: f32x8 = load 0[%10]
        %12: i64 = apply add %10, %6
        %13: f32x8 = load 0[%12]
        store 1[%10], %11
        store 1[%12], %13
      }
    }
  }
}
)");
    const bool changed = stream_outputs(kernel, small_machine());
    EXPECT_EQ(changed, count(print(kernel), "non_temporal") == 2U);
    return changed;
  };
  EXPECT_TRUE(streamed("8"));
  EXPECT_FALSE(streamed("4")) << "lines that overlap";
  EXPECT_FALSE(streamed("16")) << "halves of two lines";
  EXPECT_FALSE(streamed("8", "8")) << "lines that begin anywhere";
}

TEST(StreamOutputs, LeavesRowsThatStartInsideALine) {
  std::string text = kRows;
  text.replace(text.find("const 1024"), 10, "const 1023");
  KernelFunction kernel = kernel_of(text);
  EXPECT_FALSE(stream_outputs(kernel, small_machine()));
}

TEST(StreamOutputs, LeavesAnOutputThatIsReadAgain) {
  std::string text = kRows;
  text.replace(text.find("%17: f32x16 = load 0"), 20, "%17: f32x16 = load 1");
  KernelFunction kernel = kernel_of(text);
  EXPECT_FALSE(stream_outputs(kernel, small_machine()));
}

}  // namespace
}  // namespace weft
