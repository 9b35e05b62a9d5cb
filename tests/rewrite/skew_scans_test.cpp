#include "rewrite/skew_scans.h"

#include <cstring>

#include "interp/interpreter.h"
#include "tests/graph/random_graph.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

HostTensor random_tensor(const TensorType& type, TestRandom& random) {
  HostTensor out(type.dtype, type.shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_double(i, static_cast<double>(random.between(-1000, 1000)) / 997);
  return out;
}

/// The pass leaves as many scans, and every bit of the outputs.
void expect_skewed(const std::string& text, int scans) {
  SCOPED_TRACE(text);
  Graph graph = parsed(text);
  TestRandom random(7);
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) inputs.push_back(random_tensor(graph.type(v), random));
  const auto expected = interpret(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_TRUE(skew_scans(graph));
  const Status status = verify_graph(graph);
  ASSERT_TRUE(status.ok()) << status.error().message << print(graph);
  EXPECT_EQ(std::ranges::count(graph.nodes, GraphOp::kScan, &Node::op), scans) << print(graph);
  EXPECT_FALSE(skew_scans(graph));
  const auto actual = interpret(graph, inputs);
  ASSERT_TRUE(actual.ok()) << actual.error().message << print(graph);
  for (size_t o = 0; o < expected->size(); ++o) {
    ASSERT_EQ((*actual)[o].shape(), (*expected)[o].shape());
    EXPECT_EQ(std::memcmp((*actual)[o].raw(), (*expected)[o].raw(),
                          static_cast<size_t>((*expected)[o].bytes())),
              0)
        << "output " << o << print(graph);
  }
}

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
