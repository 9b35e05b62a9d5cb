#include "kernel/share_literals.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <span>
#include <string>
#include <vector>

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// y = u8(round_even(x / scale) + zero) twice, whose second zero point is the same; a register of 1
/// beside them.
std::string quantising(const std::string& name, const std::string& scale, const std::string& zero,
                       const std::string& first = "0") {
  return fmt::format(R"(kernel "{}" {{
  buffer 0 "x" input f32[16] align 4
  buffer 1 "y" output u8[16] align 4
  phase 1 (%0, %1) {{
    %2: f32x8 = const {}
    %3: f32x8 = const {}
    %4: i64 = const {}
    %5: f32x8 = load 0[%4]
    %6: f32x8 = apply div %5, %2
    %7: f32x8 = apply round_even %6
    %8: f32x8 = apply add %7, %3
    %9: u8x8 = apply convert %8
    store 1[%4], %9
  }}
}}
)",
                     name, scale, zero, first);
}

struct Launched {
  KernelFunction function;
  std::vector<int64_t> arguments;
};

Launched launched(const std::string& text, std::vector<int64_t> arguments = {}) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return {std::move(*kernel), std::move(arguments)};
}

/// How many share; all stay valid, and compute what they did.
int shared(std::vector<Launched>& kernels) {
  std::vector<float> x(16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 3.25F * static_cast<float>(i) - 20;
  const auto results = [&](const Launched& k) {
    std::vector<float> in = x;
    std::vector<uint8_t> out(16, 1);
    const std::vector<std::span<std::byte>> buffers = {std::as_writable_bytes(std::span(in)),
                                                       std::as_writable_bytes(std::span(out))};
    const Status status = execute_kernel(k.function, buffers, k.arguments);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return out;
  };
  std::vector<std::vector<uint8_t>> before;
  for (const Launched& k : kernels) before.push_back(results(k));
  std::vector<KernelOfLaunches> list;
  for (Launched& k : kernels) list.push_back({&k.function, &k.arguments});
  const int count = share_literals(list);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Status status = verify_kernel(kernels[k].function);
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(results(kernels[k]), before[k]);
  }
  return count;
}

TEST(ShareLiterals, NumbersThatDifferAreArguments) {
  std::vector<Launched> kernels = {launched(quantising("a", "0.25", "3")),
                                   launched(quantising("b", "0.375", "128")),
                                   launched(quantising("c", "0.375", "128"))};
  EXPECT_EQ(shared(kernels), 3);
  EXPECT_EQ(kernel_digest(kernels[0].function), kernel_digest(kernels[1].function));
  EXPECT_THAT(kernels[0].arguments, ElementsAre(0x3e800000, 3));
  EXPECT_THAT(kernels[1].arguments, ElementsAre(0x3ec00000, 128));
  EXPECT_EQ(kernels[2].arguments, kernels[1].arguments);
  const std::string text = print(kernels[0].function);
  EXPECT_THAT(text, HasSubstr("arguments 2\n"));
  EXPECT_THAT(text, HasSubstr(R"(    %10: i64 = argument 0
    %11: i32 = apply convert %10
    %12: f32 = apply bitcast %11
    %2: f32x8 = broadcast %12
    %13: i64 = argument 1
    %14: i16 = apply convert %13
    %15: f32 = apply convert %14
    %3: f32x8 = broadcast %15
    %4: i64 = const 0
)"));
}

TEST(ShareLiterals, NumbersThatAreTheSameStay) {
  std::vector<Launched> kernels = {launched(quantising("a", "0.25", "3")),
                                   launched(quantising("b", "0.5", "3"))};
  EXPECT_EQ(shared(kernels), 2);
  EXPECT_THAT(print(kernels[0].function), HasSubstr("%3: f32x8 = const 3\n"));
  EXPECT_EQ(kernels[1].arguments.size(), 1U);
}

TEST(ShareLiterals, PlacesInMemoryStay) {
  std::vector<Launched> kernels = {launched(quantising("a", "0.25", "3", "0")),
                                   launched(quantising("b", "0.5", "3", "8"))};
  EXPECT_EQ(shared(kernels), 0);
  EXPECT_TRUE(kernels[0].arguments.empty());
  EXPECT_THAT(print(kernels[0].function), Not(HasSubstr("argument")));
}

/// An infinity, a fraction and a negative zero are bits; whole numbers of 16 bits are integers.
TEST(ShareLiterals, OnlyWholeNumbersOfAllAreIntegers) {
  for (const std::string other : {"0.5", "-0", "40000"}) {
    std::vector<Launched> kernels = {launched(quantising("a", "0.25", "3")),
                                     launched(quantising("b", "0.25", other))};
    EXPECT_EQ(shared(kernels), 2);
    EXPECT_THAT(print(kernels[0].function), HasSubstr("apply bitcast")) << other;
    EXPECT_THAT(kernels[0].arguments, ElementsAre(0x40400000)) << other;
  }
}

TEST(ShareLiterals, StandBehindArgumentsThatAreThere) {
  const auto with_length = [](const std::string& name, const std::string& scale) {
    std::string text = quantising(name, scale, "3");
    text.insert(text.find("  buffer 0"), "  arguments 1\n");
    const std::string first = "%4: i64 = const 0";
    return text.replace(text.find(first), first.size(), "%4: i64 = argument 0");
  };
  std::vector<Launched> kernels = {launched(with_length("a", "0.25"), {8}),
                                   launched(with_length("b", "0.5"), {0})};
  EXPECT_EQ(shared(kernels), 2);
  EXPECT_THAT(kernels[0].arguments, ElementsAre(8, 0x3e800000));
  EXPECT_THAT(print(kernels[1].function), HasSubstr("argument 1\n"));
}

}  // namespace
}  // namespace weft
