#include "rewrite/skew_scans.h"

#include "tests/rewrite/expect_scans.h"

namespace weft {
namespace {

void expect_skewed(const std::string& text, int scans) { expect_scans(skew_scans, text, scans); }

constexpr const char* kRegion = R"(
    region (h: f32[2,3], x: f32[2,3], w: f32[3,3]) {
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[2,3]
      s = add p, x : f32[2,3]
      n = tanh s : f32[2,3]
    } -> (n, y=n)
)";
constexpr const char* kScan =
    ", carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2,3], "
    "f32[12,2,3]";

TEST(SkewScans, ThreeLayersWithProductsBetween) {
  const std::string step = std::string(kScan) + kRegion;
  expect_skewed(
      "(h: f32[2,3], x: f32[12,2,3], w: f32[3,3], u: f32[4,3], b: f32[4], v: f32[3,4]) {\n"
      "  l0, a0 = scan h, x, w" +
          step +
          "  p0 = dot_general a0, u, lhs_contract={2}, rhs_contract={1} : f32[12,2,4]\n"
          "  c0 = broadcast b, dims={2} : f32[12,2,4]\n"
          "  s0 = add p0, c0 : f32[12,2,4]\n"
          "  q0 = dot_general v, s0, lhs_contract={1}, rhs_contract={2} : f32[3,12,2]\n"
          "  x1 = transpose q0, permutation={1,2,0} : f32[12,2,3]\n"
          "  l1, a1 = scan h, x1, w" +
          step +
          "  r1 = reshape a1 : f32[12,6]\n"
          "  e1 = tanh r1 : f32[12,6]\n"
          "  x2 = reshape e1 : f32[12,2,3]\n"
          "  l2, a2 = scan h, x2, w" +
          step +
          "  m = add a2, a1 : f32[12,2,3]\n"
          "  n = sub l0, l2 : f32[2,3]\n"
          "} -> (m, n, l1)",
      1);
}

/// One layer reads another slice of each step, and what it stacks is read in the steps' order.
TEST(SkewScans, SlicesOfTheirOwn) {
  expect_skewed(
      std::string("(h: f32[2,3], x: f32[12,2,3], z: f32[12,2,3], w: f32[3,3]) {\n"
                  "  l0, a0 = scan h, x, w") +
          kScan + kRegion +
          R"(  l1, a1 = scan h, z, a0, carry_count=1, scanned_count=2, x_reverse={false,false}, y_reverse={false} : f32[2,3], f32[12,2,3]
    region (h: f32[2,3], z: f32[2,3], x: f32[2,3]) {
      s = mul h, x : f32[2,3]
      n = sub s, z : f32[2,3]
    } -> (n, y=s)
} -> (a1, l1))",
      1);
}

/// A layer reads what the one below stacks through several products.
TEST(SkewScans, SeveralSlicesOfOneStack) {
  expect_skewed(
      std::string("(h: f32[2,3], x: f32[12,2,3], w: f32[3,3], u: f32[3,3], v: f32[3,3]) {\n"
                  "  l0, a0 = scan h, x, w") +
          kScan + kRegion +
          R"(  p = dot_general a0, u, lhs_contract={2}, rhs_contract={0} : f32[12,2,3]
  q = dot_general a0, v, lhs_contract={2}, rhs_contract={0} : f32[12,2,3]
  l1, a1 = scan h, p, a0, x, q, carry_count=1, scanned_count=4, x_reverse={false,false,false,false}, y_reverse={false} : f32[2,3], f32[12,2,3]
    region (h: f32[2,3], p: f32[2,3], a: f32[2,3], x: f32[2,3], q: f32[2,3]) {
      s = mul h, p : f32[2,3]
      t = sub s, q : f32[2,3]
      r = add t, a : f32[2,3]
      n = sub r, x : f32[2,3]
    } -> (n, y=s)
} -> (a1, l1))",
      1);
}

/// A layer that begins with what the one below ends with, one that runs backwards, one of a sum
/// over the steps, few steps: each is left.
TEST(SkewScans, LeavesWhatDependsOtherwise) {
  const std::string head = "(h: f32[2,3], x: f32[12,2,3], w: f32[3,3]) {\n  l0, a0 = scan h, x, w";
  const std::string step = std::string(kScan) + kRegion;
  expect_unchanged(skew_scans, head + step + "  l1, a1 = scan l0, a0, w" + step + "} -> (a1)");
  std::string backwards = step;
  backwards.replace(backwards.find("x_reverse={false}"), 17, "x_reverse={true}");
  expect_unchanged(skew_scans, head + step + "  l1, a1 = scan h, a0, w" + backwards + "} -> (a1)");
  expect_unchanged(skew_scans, head + step +
                                   "  t = reduce a0, axes={0}, combiner=sum : f32[2,3]\n"
                                   "  b = broadcast t, dims={1,2} : f32[12,2,3]\n"
                                   "  x1 = add a0, b : f32[12,2,3]\n  l1, a1 = scan h, x1, w" +
                                   step + "} -> (a1)");
  expect_unchanged(skew_scans, R"((h: f32[2], x: f32[7,2]) {
  l0, a0 = scan h, x, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2], f32[7,2]
    region (h: f32[2], x: f32[2]) {
      n = sub h, x : f32[2]
    } -> (n, y=n)
  l1, a1 = scan h, a0, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2], f32[7,2]
    region (h: f32[2], x: f32[2]) {
      n = sub h, x : f32[2]
    } -> (n, y=n)
} -> (a1))");
}

}  // namespace
}  // namespace weft
