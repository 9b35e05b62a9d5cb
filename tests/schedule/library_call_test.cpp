#include "schedule/library_call.h"

#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

/// The library call for everything in a graph as one kernel; empty where there is none.
std::string called(const std::string& text, bool named = true) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  Target target = *find_target("a100-80gb");
  if (named) target.libraries = {"cublaslt"};
  auto kernel = schedule_group(program, group, target, "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  if (!kernel.ok() || !kernel->library) return "";
  EXPECT_EQ(kernel->schedule_template, "cublaslt");
  return print(*kernel->library);
}

TEST(LibraryCalls, ADenseLayerWithBiasAndClamp) {
  const std::string text = R"(
(x: f32[4,512,768], w: f32[768,3072], b: f32[3072]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[4,512,3072]
  c = broadcast b, dims={2} : f32[4,512,3072]
  s = add c, p : f32[4,512,3072]
  z = constant 0 : f32[]
  o = broadcast z, dims={} : f32[4,512,3072]
  y = max s, o : f32[4,512,3072]
} -> (y))";
  EXPECT_EQ(called(text),
            "cublaslt 1x2048x3072x768 f32 -> f32 a 0 n 768 0 b 1 n 3072 0 c 3 n 3072 0 bias 2 "
            "clamps");
  EXPECT_EQ(called(text, /*named=*/false), "");
}

TEST(LibraryCalls, ABatchOfTransposedProducts) {
  EXPECT_EQ(called(R"(
(q: f32[12,512,64], k: f32[12,512,64]) {
  y = dot_general q, k, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={2} : f32[12,512,512]
} -> (y))"),
            "cublaslt 12x512x512x64 f32 -> f32 a 0 n 64 32768 b 1 t 64 32768 c 2 n 512 262144");
}

TEST(LibraryCalls, HalvesThatSumUpInFloat) {
  EXPECT_EQ(called(R"(
(x: f16[2048,1024], w: f16[1024,1024]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f16[2048,1024]
} -> (y))"),
            "cublaslt 1x2048x1024x1024 f16 -> f16 a 0 n 1024 0 b 1 n 1024 0 c 2 n 1024 0");
}

TEST(LibraryCalls, NotWhatALibraryLacksOrDoesNoFaster) {
  // A function of the product that is no epilogue.
  EXPECT_EQ(called(R"(
(x: f32[2048,768], w: f32[768,3072]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2048,3072]
  y = tanh p : f32[2048,3072]
} -> (y))"),
            "");
  // A bias along the rows.
  EXPECT_EQ(called(R"(
(x: f32[2048,768], w: f32[768,3072], b: f32[2048]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2048,3072]
  c = broadcast b, dims={0} : f32[2048,3072]
  y = add p, c : f32[2048,3072]
} -> (y))"),
            "");
  // A part of a tensor that does not begin where the tensor does.
  EXPECT_EQ(called(R"(
(x: f32[2048,1536], w: f32[768,3072]) {
  h = slice x, start={0,768}, step={1,1} : f32[2048,768]
  y = dot_general h, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2048,3072]
} -> (y))"),
            "");
  // Bound by memory: eight rows.
  EXPECT_EQ(called(R"(
(x: f32[8,768], w: f32[768,3072]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[8,3072]
} -> (y))"),
            "");
}

}  // namespace
}  // namespace weft
