#include "rewrite/unite_scans.h"

#include "tests/rewrite/expect_scans.h"

namespace weft {
namespace {

std::string scan_of(const std::string& operands, const std::string& steps, bool reversed,
                    const std::string& region) {
  const std::string direction = reversed ? "{true}" : "{false}";
  return "scan " + operands + ", carry_count=1, scanned_count=1, x_reverse=" + direction +
         ", y_reverse=" + direction + " : f32[2,3], f32[" + steps + ",2,3]\n" + region;
}

constexpr const char* kProduct = R"(
    region (h: f32[2,3], x: f32[2,3], w: f32[3,3]) {
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[2,3]
      s = add p, x : f32[2,3]
      n = tanh s : f32[2,3]
    } -> (n, y=n)
)";
constexpr const char* kDifference = R"(
    region (h: f32[2,3], x: f32[2,3], w: f32[3,3]) {
      n = sub x, h : f32[2,3]
    } -> (n, y=h)
)";

/// Two directions of a layer share their weights; a layer of both reads what both stack.
TEST(UniteScans, DirectionsOfLayers) {
  expect_scans(
      unite_scans,
      "(h: f32[2,3], g: f32[2,3], x: f32[5,2,3], w: f32[3,3], v: f32[3,3]) {\n  a, as = " +
          scan_of("h, x, w", "5", false, kProduct) +
          "  b, bs = " + scan_of("g, x, w", "5", true, kProduct) +
          "  s = add as, bs : f32[5,2,3]\n  c, cs = " + scan_of("a, s, v", "5", false, kProduct) +
          "  d, ds = " + scan_of("b, s, w", "5", true, kDifference) +
          "  t = mul cs, ds : f32[5,2,3]\n} -> (t, bs, c, d)",
      2);
}

/// What depends on the first scan, and stands before the second, moves behind both; what the second
/// reads stays in front.
TEST(UniteScans, NodesBetween) {
  expect_scans(unite_scans,
               "(h: f32[2,3], x: f32[4,2,3], w: f32[3,3]) {\n  a, as = " +
                   scan_of("h, x, w", "4", false, kProduct) +
                   "  m = neg as : f32[4,2,3]\n  z = tanh x : f32[4,2,3]\n  b, bs = " +
                   scan_of("h, z, w", "4", false, kDifference) +
                   "  s = add m, bs : f32[4,2,3]\n} -> (s, a, b)",
               1);
}

/// One that reads the other, also by its last step, and one of more steps: each is left.
TEST(UniteScans, LeavesWhatDependsOrIsLonger) {
  const std::string head =
      "(h: f32[2,3], x: f32[4,2,3], y: f32[6,2,3], w: f32[3,3]) {\n  a, as = " +
      scan_of("h, x, w", "4", false, kProduct);
  expect_unchanged(unite_scans,
                   head + "  b, bs = " + scan_of("a, x, w", "4", false, kProduct) + "} -> (bs)");
  expect_unchanged(unite_scans, head + "  m = neg as : f32[4,2,3]\n  b, bs = " +
                                    scan_of("h, m, w", "4", false, kProduct) + "} -> (bs)");
  expect_unchanged(unite_scans, head + "  b, bs = " + scan_of("h, y, w", "6", false, kProduct) +
                                    "} -> (as, bs)");
}

/// Scans of random bodies, lengths and directions, which read inputs or what earlier ones stack.
TEST(UniteScans, RandomBodies) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    TestRandom random(seed);
    std::string text = "(h: f32[2,3], x4: f32[4,2,3], x6: f32[6,2,3], w: f32[3,3]) {\n";
    std::vector<std::string> lasts = {"h"};
    std::map<std::string, std::vector<std::string>> stacks = {{"4", {"x4"}}, {"6", {"x6"}}};
    std::string outputs;
    for (int64_t s = 0; s < 5; ++s) {
      const std::string steps = random.chance(70) ? "4" : "6", number = std::to_string(s);
      std::string region = "    region (h: f32[2,3], x: f32[2,3], w: f32[3,3]) {\n";
      std::vector<std::string> values = {"h", "x"};
      for (int64_t v = 0; v < random.between(1, 5); ++v) {
        const std::string name = "v" + std::to_string(v);
        region += "      " + name + " = ";
        switch (random.between(0, 2)) {
          case 0:
            region += "dot_general " + random.pick(values) + ", w, lhs_contract={1}, " +
                      "rhs_contract={0} : f32[2,3]\n";
            break;
          case 1:
            region += "sub " + random.pick(values) + ", " + random.pick(values) + " : f32[2,3]\n";
            break;
          default:
            region += "tanh " + random.pick(values) + " : f32[2,3]\n";
        }
        values.push_back(name);
      }
      region += "    } -> (n=" + random.pick(values) + ", y=" + random.pick(values) + ")\n";
      text += "  l" + number + ", a" + number + " = " +
              scan_of(random.pick(lasts) + ", " + random.pick(stacks.at(steps)) + ", w", steps,
                      random.chance(50), region);
      if (random.chance(30)) lasts.push_back("l" + number);
      if (random.chance(30)) stacks.at(steps).push_back("a" + number);
      outputs += (s == 0 ? "l" : ", l") + number + ", a" + number;
    }
    text += "} -> (" + outputs + ")";
    SCOPED_TRACE(text);
    Graph graph = parsed(text);
    if (!unite_scans(graph)) continue;
    ++changed;
    expect_scans(unite_scans, text,
                 static_cast<int>(std::ranges::count(graph.nodes, GraphOp::kScan, &Node::op)));
  }
  EXPECT_GE(changed, 20);
}

}  // namespace
}  // namespace weft
