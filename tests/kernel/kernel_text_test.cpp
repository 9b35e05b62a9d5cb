#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/kernel_function.h"

namespace weft {
namespace {

constexpr const char* kEverything = R"(kernel "every \"op\"" {
  arguments 2
  scratch 4096
  buffer 0 "x" input f32[1024] align 64
  buffer 1 "y" output f32[1024] align 4
  buffer 2 "n" input i64[16] align 8
  buffer 3 "t" scratch f64[64] align 64 offset 128
  phase 8 (%0, %1) {
    %2: i64 = const 16
    %3: f32x16 = const -0.1
    %4: f64 = const 0.1
    %5: f32 = const -inf
    %6: i64 = argument 1
    %7: i64x16 = ramp
    %8: boolx16 = lane_mask %6
    %9: f32x16 = load 0[%0] mask %8 else 0.5
    %10: i64x16 = load 2[%6]
    %11: f32x16 = gather 0[%10] mask %8 else -0
    %12: f32x16 = gather 0[%7]
    %13: f32x16 = fma %9, %11, %12
    %14: f32x16 = apply exp nonpositive %13
    %15: f32 = reduce_lanes max %14
    %16: f32x16 = broadcast %15
    %17: f32 = extract %16 [3]
    %18: f32x16 = shuffle %14, %16 [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 31]
    %19: boolx16 = apply lt %18, %3
    %20: f32x16 = apply select %19, %18, %3
    %21: i32x16 = apply convert %20
    %27: f32x16, %28: f32 = for (%22: i64 = %0 to %1 step %2, %23: f32x16 = %20, %24: f32 = %17) {
      %25: bool = apply lt %22, %6
      %26: f32 = if %25 {
        store 3[%22], %4
        yield %24
      } else {
        yield %5
      }
      yield %23, %26
    }
    store 1[%0], %27 mask %8
    store 1[%2], %27 non_temporal
    scatter 1[%7], %27
    scatter 1[%7], %27 mask %8
  }
  phase 1 (%29, %30) {
    %31: bool = apply lt %29, %30
    if %31 {
      %32: f32 = const 1e-45
      store 1[%29], %32
    }
  }
}
)";

TEST(KernelText, PrintsWhatItParses) {
  const auto kernel = parse_kernel(kEverything);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(print(*kernel), kEverything);
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(KernelText, HashIgnoresNamesAndSeesEverythingElse) {
  const auto hash_with = [](std::string_view from, std::string_view to) {
    std::string text = kEverything;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto kernel = parse_kernel(text);
    EXPECT_TRUE(kernel.ok()) << to;
    return kernel_hash(*kernel);
  };
  const uint64_t hash = hash_with("every", "every");
  EXPECT_EQ(hash, hash_with("\"x\"", "\"input\""));
  EXPECT_EQ(hash, hash_with("every", "another"));
  EXPECT_NE(hash, hash_with("[3]", "[4]"));
  EXPECT_NE(hash, hash_with("const -0.1", "const -0.2"));
  EXPECT_NE(hash, hash_with("else -0", "else 0"));
  EXPECT_NE(hash, hash_with("exp nonpositive", "exp"));
  EXPECT_NE(hash, hash_with(" non_temporal", ""));
  EXPECT_NE(hash, hash_with("yield %24", "yield %17"));
  EXPECT_NE(hash, hash_with("[0, 16, 1", "[0, 16, 2"));
  EXPECT_NE(hash, hash_with("phase 8", "phase 9"));
}

struct Fault {
  const char* from;
  const char* to;
  const char* message;
};

std::string message_with(const Fault& fault) {
  std::string text = kEverything;
  const size_t at = text.find(fault.from);
  if (at == std::string::npos) return "no such text";
  text.replace(at, std::string_view(fault.from).size(), fault.to);
  const auto kernel = parse_kernel(text);
  if (!kernel.ok()) return kernel.error().message;
  const Status status = verify_kernel(*kernel);
  return status.ok() ? "" : status.error().message;
}

TEST(KernelText, NamesTheFault) {
  const Fault faults[] = {
      {"fma %9", "fmla %9", "20:19: 'fmla' is not an instruction"},
      {"fma %9, %11, %12", "fma %9, %11", "%13 = fma: 2 operands, not 3"},
      {"f32x16 = fma", "f33x16 = fma", "is not a type"},
      {"fma %9, %11", "fma %9, %10", "fma: needs three floats of one type"},
      {"broadcast %15", "broadcast %18", "%18 is used where it is not defined"},
      {"store 1[%0], %27 mask %8", "store 1[%0], %26 mask %8", "%26 is used where"},
      {"extract %16 [3]", "extract %16 [16]", "of a lane that is not there"},
      {"store 1[%2], %27", "store 0[%2], %27", "stores to an input"},
      {"store 3[%22]", "store 4[%22]", "buffer 4 of 4"},
      {"step %2,", "step %0,", "a step is a positive constant"},
      {"yield %23, %26", "yield %23, %23", "yields %23 for f32"},
      {"argument 1", "argument 2", "argument 2 of 2"},
      {"scratch 4096", "scratch 512", "outside the scratch memory"},
      {"apply lt %18, %3", "apply lt %18, %5", "operands of different lanes"},
      {"apply lt %18, %3", "apply and %18, %3", "and is not defined on f32"},
      {"%30) {", "%30000000000) {", "is not a number that fits"},
      {"%30) {", "%300000) {", "beyond those of this text"},
      {"  phase 8", "  phases 8", "expected arguments"},
  };
  for (const Fault& fault : faults) {
    EXPECT_THAT(message_with(fault), testing::HasSubstr(fault.message)) << fault.to;
  }
}

TEST(KernelText, EveryCutIsAnErrorAndNoCrash) {
  const std::string text = kEverything;
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse_kernel(text.substr(0, length)).ok()) << length;
  }
}

TEST(KernelText, DeepNestingIsAnError) {
  std::string text = "kernel \"deep\" {\n phase 1 (%0, %1) {\n %2: bool = const 1\n";
  for (int i = 0; i < 100000; ++i) text += "if %2 {\n";
  const auto kernel = parse_kernel(text);
  ASSERT_FALSE(kernel.ok());
  EXPECT_THAT(kernel.error().message, testing::HasSubstr("nest too deeply"));
}

}  // namespace
}  // namespace weft
