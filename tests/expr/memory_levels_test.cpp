// What follows what with calls between: how many kernels no plan can do without.

#include "expr/analysis/memory_levels.h"

#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

int64_t least_of(const std::string& text) {
  return memory_levels(expressed(parsed_graph(text))).least;
}

TEST(MemoryLevels, CallsOnAPathKeepKernelsApart) {
  const TensorProgram p = expressed(parsed_graph(R"((x: f32[8,8], w: f32[8,8]) {
    a = exp x : f32[8,8]
    p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
    b = tanh p : f32[8,8]
    q = dot_general b, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
    c = add q, a : f32[8,8]
    d = abs x : f32[8,8]
  } -> (c, d))"));
  const MemoryLevels levels = memory_levels(p);
  EXPECT_EQ(levels.least, 3);  // d may share any of them
  EXPECT_EQ(levels.of_step, (std::vector<int64_t>{1, 1, 2, 2, 3, 1}));
}

TEST(MemoryLevels, IndependentKernelsMayShareOne) {
  EXPECT_EQ(least_of(R"((x: f32[8,8], y: f32[8,8], w: f32[8,8]) {
    p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
    a = tanh p : f32[8,8]
    q = dot_general y, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
    b = tanh q : f32[8,8]
  } -> (a, b))"),
            1);
}

/// A call may read at other places, and nothing is left of numbers that never change.
TEST(MemoryLevels, MovementTakesNone) {
  EXPECT_EQ(least_of(R"((x: f32[8,8], w: f32[8,8], i: i64[8]) {
    p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
    t = transpose p, permutation={1,0} : f32[8,8]
    j = concat t, x, axis=0 : f32[16,8]
    q = dot_general j, w, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  } -> (q))"),
            0);
}

/// Where a loop's body multiplies, its kernels run in it alone; else it may be a kernel.
TEST(MemoryLevels, LoopsMayJoinWhereTheyHoldNoCalls) {
  const std::string loop = R"((x: f32[5,8], s: f32[8], w: f32[8,8]) {
    y = exp x : f32[5,8]
    h, all = scan s, y, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[8], f32[5,8]
      region (c: f32[8], r: f32[8], v: f32[8,8]) {
        $BODY
        n = tanh m : f32[8]
      } -> (n, all=n)
    z = abs all : f32[5,8]
  } -> (h, z))";
  const auto with = [&](const std::string& body) {
    std::string text = loop;
    text.replace(text.find("$BODY"), 5, body);
    return least_of(text);
  };
  EXPECT_EQ(with("m = add c, r : f32[8]"), 1);
  EXPECT_EQ(with("m = dot_general c, v, lhs_contract={0}, rhs_contract={0} : f32[8]"), 3);
}

}  // namespace
}  // namespace weft
