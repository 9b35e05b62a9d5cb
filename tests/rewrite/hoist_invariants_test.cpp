#include "rewrite/hoist_invariants.h"

#include "tests/rewrite/expect_scans.h"

namespace weft {
namespace {

/// A recurrence whose weights `$WEIGHTS` joins in each step from u and v, [64, 64].
std::string recurrence(const std::string& weights) {
  std::string text = R"((h0: f32[2,64], x: f32[3,2,64], u: f32[64,64], v: f32[64,64]) {
  h = scan h0, x, u, v, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={} : f32[2,64]
    region (h: f32[2,64], x: f32[2,64], u: f32[64,64], v: f32[64,64]) {
$WEIGHTS
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[2,64]
      n = add p, x : f32[2,64]
    } -> (n)
} -> (h))";
  text.replace(text.find("$WEIGHTS"), 8, weights);
  return text;
}

bool hoist(Graph& graph) { return hoist_invariants(graph, 1024); }

int64_t captures_of(const std::string& text) {
  Graph graph = parsed(text);
  EXPECT_TRUE(hoist(graph));
  const Node& scan = *std::ranges::find(graph.nodes, GraphOp::kScan, &Node::op);
  return static_cast<int64_t>(scan.operands.size()) - 2;
}

TEST(HoistInvariants, TakesOutWhatEachStepWouldJoin) {
  const std::string text = recurrence(R"(      a = slice u, start={0,0}, step={1,1} : f32[64,32]
      b = slice v, start={0,0}, step={1,1} : f32[64,32]
      w = concat a, b, axis=1 : f32[64,64])");
  expect_scans(hoist, text, 1);
  EXPECT_EQ(captures_of(text), 1);
}

TEST(HoistInvariants, TakesOutArithmeticWithItsConstants) {
  const std::string text = recurrence(R"(      c = constant 0.5 : f32[]
      s = broadcast c, dims={} : f32[64,64]
      a = mul u, s : f32[64,64]
      t = transpose v, permutation={1,0} : f32[64,64]
      w = add a, t : f32[64,64])");
  expect_scans(hoist, text, 1);
  EXPECT_EQ(captures_of(text), 1);
}

TEST(HoistInvariants, KeepsCapturesThatStepsReadThemselves) {
  const std::string text = recurrence(R"(      a = add u, v : f32[64,64]
      q = dot_general h, u, lhs_contract={1}, rhs_contract={0} : f32[2,64]
      m = reduce q, combiner=max, axes={0,1} : f32[]
      k = broadcast m, dims={} : f32[64,64]
      w = mul a, k : f32[64,64])");
  expect_scans(hoist, text, 1);
  EXPECT_EQ(captures_of(text), 2);  // u and u + v
}

TEST(HoistInvariants, TakesOutLongChains) {
  std::string chain = "      w0 = neg u : f32[64,64]\n";
  constexpr int kLinks = 100'000;
  for (int i = 1; i < kLinks; ++i) {
    chain += "      w" + std::to_string(i) + " = neg w" + std::to_string(i - 1) + " : f32[64,64]\n";
  }
  chain += "      w = add w" + std::to_string(kLinks - 1) + ", v : f32[64,64]";
  EXPECT_EQ(captures_of(recurrence(chain)), 1);
}

TEST(HoistInvariants, LeavesWhatOnlyMovesIsSmallOrGrows) {
  expect_unchanged(hoist, recurrence("      w = transpose u, permutation={1,0} : f32[64,64]"));
  constexpr const char* kRow = R"(      a = slice u, start={0,0}, step={1,1} : f32[1,64]
      b = reshape a : f32[64]
)";
  // Small; and as large as what it is made of, of which nothing comes from a capture.
  expect_unchanged(hoist, recurrence(std::string(kRow) + R"(      c = neg b : f32[64]
      w = broadcast c, dims={1} : f32[64,64])"));
  expect_unchanged(hoist, recurrence(R"(      c = iota axis=0 : f32[64,64]
      w = mul c, c : f32[64,64])"));
}

TEST(HoistInvariants, LeavesWhatIsLargerThanItsCaptures) {
  std::string text = recurrence(R"(      a = broadcast s, dims={0} : f32[64,64]
      b = broadcast s, dims={1} : f32[64,64]
      w = add a, b : f32[64,64])");
  for (const auto& [from, to] :
       {std::pair("u: f32[64,64], v: f32[64,64]) {\n  h", "s: f32[64]) {\n  h"),
        {"x, u, v,", "x, s,"},
        {"u: f32[64,64], v: f32[64,64]) {", "s: f32[64]) {"}}) {
    text.replace(text.find(from), std::string(from).size(), to);
  }
  expect_unchanged(hoist, text);
}

}  // namespace
}  // namespace weft
