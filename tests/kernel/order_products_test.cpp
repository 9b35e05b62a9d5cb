#include "kernel/order_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernel/kernel_function.h"

namespace weft {
namespace {

constexpr int kRows = 6, kTaps = 3, kLanes = 8;

/// y[r] = sum over taps of x[r + tap] * w[tap] for vectors side by side, tap by tap; `behind_first`
/// stands between the first tap's products and the second's.
std::string window_by_taps(const std::string& behind_first = "") {
  std::string out = fmt::format(R"(kernel "k" {{
  buffer 0 "x" input f32[{}] align 4
  buffer 1 "w" input f32[{}] align 4
  buffer 2 "y" output f32[{}] align 4
  phase 1 (%0, %1) {{
    %2: f32x8 = const 0
)",
                                (kRows + kTaps - 1) * kLanes, kTaps * kLanes, kRows * kLanes);
  int next = 3;
  const auto line = [&](const std::string& text) { out += "    " + text + "\n"; };
  std::map<int, int> place;
  const auto load = [&](int buffer, int at) {
    const auto [it, is_new] = place.try_emplace(at, next);
    if (is_new) line(fmt::format("%{}: i64 = const {}", next++, at * kLanes));
    line(fmt::format("%{}: f32x8 = load {}[%{}]", next, buffer, it->second));
    return next++;
  };
  std::vector<int> sums(kRows, 2);
  for (int tap = 0; tap < kTaps; ++tap) {
    const int w = load(1, tap);
    for (int r = 0; r < kRows; ++r) {
      const int x = load(0, r + tap);
      line(fmt::format("%{}: f32x8 = fma %{}, %{}, %{}", next, x, w, sums[static_cast<size_t>(r)]));
      sums[static_cast<size_t>(r)] = next++;
    }
    if (tap == 0 && !behind_first.empty()) line(behind_first);
  }
  for (int r = 0; r < kRows; ++r) {
    line(fmt::format("%{}: i64 = const {}", next, r * kLanes));
    line(fmt::format("store 2[%{}], %{}", next++, sums[static_cast<size_t>(r)]));
  }
  return out + "  }\n}\n";
}

KernelFunction verified(const std::string& text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message << "\n" << text;
  return std::move(*kernel);
}

std::vector<float> run(const KernelFunction& kernel) {
  std::vector<float> x((kRows + kTaps - 1) * kLanes), w(kTaps * kLanes), y(kRows * kLanes);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0F / static_cast<float>(3 + i);
  for (size_t i = 0; i < w.size(); ++i) w[i] = 0.7F - 0.11F * static_cast<float>(i);
  const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
  EXPECT_TRUE(execute_kernel(kernel, {bytes(x), bytes(w), bytes(y)}, {}).ok());
  return y;
}

/// Products in the order of the text, each as the numbers of its factors: x0 w0 …
std::string products(const KernelFunction& kernel) {
  std::vector<std::string> name(kernel.types.size());
  std::vector<int64_t> number(kernel.types.size());
  std::string out;
  for (const KernelInstruction& in : kernel.phases[0].body.body) {
    if (in.results.empty()) continue;
    const auto result = static_cast<size_t>(in.results[0]);
    if (in.op == KernelOp::kConst && kernel.type(in.results[0]).lanes == 1)
      number[result] = in.as<ConstPayload>().value.i;
    if (in.op == KernelOp::kLoad)
      name[result] = fmt::format("{}{}", in.as<LoadPayload>().buffer == 0 ? 'x' : 'w',
                                 number[static_cast<size_t>(in.operands[0])] / kLanes);
    if (in.op == KernelOp::kFma)
      out += name[static_cast<size_t>(in.operands[0])] + name[static_cast<size_t>(in.operands[1])] +
             " ";
  }
  return out;
}

Target with_registers(int registers) {
  Target target;
  target.vector_registers = registers;
  return target;
}

TEST(OrderProducts, ValueByValueWhereTheRowDoesNotFit) {
  const KernelFunction before = verified(window_by_taps());
  KernelFunction kernel = before;
  // Six sums, five values of the row that the next tap needs, a weight.
  ASSERT_TRUE(order_products(kernel, with_registers(11)));
  const Status status = verify_kernel(kernel);
  EXPECT_TRUE(status.ok()) << status.error().message << "\n" << print(kernel);
  EXPECT_EQ(products(kernel),
            "x0w0 x1w0 x1w1 x2w0 x2w1 x2w2 x3w0 x3w1 x3w2 x4w0 x4w1 x4w2 x5w0 x5w1 x5w2 x6w1 x6w2 "
            "x7w2 ");
  EXPECT_EQ(run(kernel), run(before)) << "to the bit";
  EXPECT_FALSE(order_products(kernel, with_registers(11))) << "a second time";
}

TEST(OrderProducts, LeavesARowThatFits) {
  KernelFunction kernel = verified(window_by_taps());
  const std::string before = print(kernel);
  EXPECT_FALSE(order_products(kernel, with_registers(12)));
  EXPECT_EQ(print(kernel), before);
}

TEST(OrderProducts, NothingMovesPastAStore) {
  KernelFunction kernel = verified(window_by_taps("store 2[%3], %2"));
  const std::string before = products(kernel);
  order_products(kernel, with_registers(4));
  EXPECT_EQ(products(kernel).substr(0, 30), before.substr(0, 30)) << print(kernel);
  EXPECT_TRUE(verify_kernel(kernel).ok());
}

}  // namespace
}  // namespace weft
