#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "tests/schedule/expressed.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

Target machine() {
  Target target;
  target.threads = 2;
  target.vector_bytes = 64;
  target.vector_registers = 32;
  return target;
}

/// The tile program of a graph that becomes one kernel.
std::string scheduled(const std::string& text) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  auto kernel = schedule_group(program, group, machine(), "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const Status status = verify_tile_program(kernel->program);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return print(kernel->program);
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

/// Channels read a number of their group of ten from anywhere in a vector: one gathering
/// serves eight rows. Groups of sixteen are read at once.
TEST(Stitch, RowsShareWhatLanesGather) {
  const auto by_groups = [](int64_t group) {
    const std::string c = std::to_string(4 * group), g = std::to_string(group);
    return scheduled("(x: f32[64," + c + "], m: f32[4]) {\n  b = broadcast m, dims={0} : f32[4," +
                     g + "]\n  f = reshape b : f32[" + c +
                     "]\n  r = broadcast f, dims={1} : f32[64," + c +
                     "]\n  y = sub x, r : f32[64," + c + "]\n} -> (y)");
  };
  EXPECT_TRUE(has(by_groups(10), "=REG_8")) << by_groups(10);
  EXPECT_FALSE(has(by_groups(16), "=REG_8")) << by_groups(16);
}

std::string normalised(int64_t rows, int64_t n) {
  const std::string t = "f32[" + std::to_string(rows) + "," + std::to_string(n) + "]";
  const std::string v = "f32[" + std::to_string(rows) + "]";
  return "(x: " + t + ") {\n  q = mul x, x : " + t +
         "\n  s = reduce q, axes={1}, combiner=sum : " + v + "\n  r = rsqrt s : " + v +
         "\n  b = broadcast r, dims={0} : " + t + "\n  y = mul x, b : " + t + "\n} -> (y)";
}

TEST(Stitch, ReducesOnceWhatIsUsedAlongAnotherAxis) {
  const auto outer = [](int64_t rows, int64_t n, int64_t columns) {
    const std::string v = "f32[" + std::to_string(rows) + "]";
    const std::string t = "f32[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
    const TensorProgram p =
        expressed("(x: f32[" + std::to_string(rows) + "," + std::to_string(n) + "], w: f32[" +
                  std::to_string(columns) + "]) {\n  s = reduce x, axes={1}, combiner=sum : " + v +
                  "\n  b = broadcast s, dims={0} : " + t + "\n  c = broadcast w, dims={1} : " + t +
                  "\n  y = mul b, c : " + t + "\n} -> (y)");
    return is_leaf(p, whole_group(p), machine());
  };
  const Decision large = outer(64, 1024, 4096);
  EXPECT_FALSE(large);
  EXPECT_TRUE(has(large.reason(), "s lacks axes")) << large.reason();
  EXPECT_TRUE(outer(4, 8, 8)) << "a launch would cost more";
  EXPECT_TRUE(outer(64, 1024, 1));
}

TEST(Stitch, TakesSeveralShortRowsAtATime) {
  EXPECT_TRUE(has(scheduled(normalised(512, 64)), "grid a0 in 512 step 4"));
  EXPECT_TRUE(has(scheduled(normalised(512, 768)), "grid a0 in 512 step 2"));
  EXPECT_TRUE(has(scheduled(normalised(512, 30000)), "grid a0 in 512 {")) << "out of the cache";
  EXPECT_TRUE(has(scheduled(normalised(8, 64)), "grid a0 in 8 {")) << "too few for the threads";
}

TEST(Stitch, TakesLongRowsFromMemoryOneByOne) {
  EXPECT_TRUE(has(scheduled(normalised(100000, 200)), "grid a0 in 100000 {"));
  EXPECT_TRUE(has(scheduled(normalised(1000, 200)), "grid a0 in 1000 step 4")) << "in the cache";
  EXPECT_TRUE(has(scheduled(normalised(1000000, 32)), "grid a0 in 1000000 step 4")) << "short rows";
}

/// What was chosen where an axis has the extent 1 says nothing of where it is longer.
TEST(Stitch, RefusesTheChoicesOfAnotherBinding) {
  const auto softmax_of = [](int n) {
    const std::string t = "f32[8," + std::to_string(n) + "]";
    return expressed("(x: " + t + ") {\n  m = reduce x, axes={1}, combiner=max : f32[8]\n" +
                     "  b = broadcast m, dims={0} : " + t + "\n  d = sub x, b : " + t +
                     "\n  e = exp d : " + t + "\n} -> (e)");
  };
  const TensorProgram narrow = softmax_of(1), wide = softmax_of(2);
  const Group group = whole_group(narrow);
  const auto chosen = schedule_group(narrow, group, machine(), "k");
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  EXPECT_TRUE(build_composition(narrow, group, chosen->composition, machine(), "k").ok());
  EXPECT_FALSE(build_composition(wide, group, chosen->composition, machine(), "k").ok());
}

}  // namespace
}  // namespace weft
