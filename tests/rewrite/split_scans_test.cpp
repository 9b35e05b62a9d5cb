#include "rewrite/split_scans.h"

#include "tests/rewrite/expect_scans.h"

namespace weft {
namespace {

std::string product(const std::string& name, const std::string& of) {
  return "      " + name + " = dot_general " + of +
         ", w, lhs_contract={1}, rhs_contract={0} : f32[2,3]\n";
}

/// A scan of carries h, g and k over x and z, the second one backwards.
std::string scan_of(const std::string& region, const std::string& outputs) {
  return "(h: f32[2,3], g: f32[2,3], k: f32[2,3], x: f32[5,2,3], z: f32[5,2,3], w: f32[3,3]) {\n"
         "  a, b, c, d, e = scan h, g, k, x, z, w, carry_count=3, scanned_count=2, "
         "x_reverse={false,true}, y_reverse={true,false} : f32[2,3], f32[2,3], f32[2,3], "
         "f32[5,2,3], f32[5,2,3]\n"
         "    region (h: f32[2,3], g: f32[2,3], k: f32[2,3], x: f32[2,3], z: f32[2,3], w: "
         "f32[3,3]) {\n" +
         region + "    } -> (" + outputs + ")\n} -> (a, b, c, d, e)";
}

/// The second layer's own scan reads what the first one stacks.
TEST(SplitScans, LayersOfACell) {
  expect_rewrite(split_scans, R"(
(h: f32[2,3], g: f32[2,3], x: f32[5,2,3], w: f32[3,3]) {
  a, b, c = scan h, g, x, w, carry_count=2, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2,3], f32[2,3], f32[5,2,3]
    region (h: f32[2,3], g: f32[2,3], x: f32[2,3], w: f32[3,3]) {
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[2,3]
      m = add p, x : f32[2,3]
      q = dot_general g, w, lhs_contract={1}, rhs_contract={0} : f32[2,3]
      n = add q, m : f32[2,3]
    } -> (m, n, y=n)
} -> (a, b, c)
)",
                 R"(
(h: f32[2,3], g: f32[2,3], x: f32[5,2,3], w: f32[3,3]) {
  v7, v8 = scan h, x, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2,3], f32[5,2,3]
    region (h: f32[2,3], x: f32[2,3], w: f32[3,3]) {
      p = dot_general h, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2,3]
      m = add p, x : f32[2,3]
    } -> (out0=m, out1=m)
  v9, v10 = scan g, v8, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2,3], f32[5,2,3]
    region (g: f32[2,3], m: f32[2,3], w: f32[3,3]) {
      q = dot_general g, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2,3]
      n = add q, m : f32[2,3]
    } -> (out0=n, out1=n)
} -> (a=v7, b=v9, c=v10)
)");
}

/// What is summed up of a layer stays with it; a product that a later one alone reads goes there,
/// and so does what the layer below had before the step.
TEST(SplitScans, SumsAndWhatWasBefore) {
  expect_scans(split_scans,
               scan_of(product("p", "h") + "      m = add p, x : f32[2,3]\n" +
                           "      s = add k, m : f32[2,3]\n" + product("i", "m") +
                           product("q", "g") + "      o = add q, i : f32[2,3]\n" +
                           "      r = mul o, h : f32[2,3]\n      n = add r, z : f32[2,3]\n",
                       "m, n, s, y=n, t=s"),
               2);
}

/// Three layers, and constants that all of them read.
TEST(SplitScans, ConstantsAreInAllOfThem) {
  expect_scans(
      split_scans,
      scan_of("      o = constant 0.25 : f32[]\n      t = broadcast o, dims={} : f32[2,3]\n" +
                  product("p", "h") + "      m = add p, t : f32[2,3]\n" + product("q", "g") +
                  "      u = add q, m : f32[2,3]\n      n = mul u, t : f32[2,3]\n" +
                  product("r", "k") +
                  "      v = sub r, n : f32[2,3]\n      j = add v, t : "
                  "f32[2,3]\n",
              "m, n, j, y=t, e=z"),
      3);
}

/// One recurrence, two that do not read each other, one that both are, and a carry that is handed
/// on as it is.
TEST(SplitScans, LeavesOthers) {
  const std::string tanh = "      m = tanh h : f32[2,3]\n", first = product("p", "h");
  for (const std::string& text :
       {scan_of(tanh + first + "      n = add m, g : f32[2,3]\n      s = add k, n : f32[2,3]\n",
                "p, n, s, y=s, e=m"),
        scan_of(first + product("q", "g") + "      s = add k, p : f32[2,3]\n", "p, q, s, y=s, e=q"),
        scan_of(first + product("q", "g") + "      m = add p, q : f32[2,3]\n" +
                    "      n = sub p, q : f32[2,3]\n      s = add k, m : f32[2,3]\n",
                "m, n, s, y=s, e=m"),
        scan_of(first + product("q", "g") + "      n = add p, q : f32[2,3]\n",
                "p, n, g, y=n, e=p")})
    expect_unchanged(split_scans, text);
}

/// Layers of random bodies, some of which read what a later one had before the step.
TEST(SplitScans, RandomBodies) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    TestRandom random(seed);
    std::vector<std::string> values = {"x", "z"}, carried;
    std::string region;
    int64_t number = 0;
    for (const char* carry : {"h", "g", "k"}) {
      values.emplace_back(carry);
      std::vector<std::string> made;
      for (int64_t v = 0; v < random.between(2, 5); ++v) {
        const std::string name = "v" + std::to_string(number++);
        const std::string other = random.chance(15) ? "k" : random.pick(values);
        const std::string own = made.empty() ? carry : random.pick(made);
        if (random.chance(45)) {
          region += product(name, random.chance(60) ? own : other);
        } else {
          region += "      " + name + " = sub " + other + ", " + own + " : f32[2,3]\n";
        }
        values.push_back(name);
        made.push_back(name);
      }
      carried.push_back(random.chance(80) ? made.back() : random.pick(made));
    }
    const std::string text =
        scan_of(region, "n=" + carried[0] + ", o=" + carried[1] + ", p=" + carried[2] +
                            ", q=" + random.pick(values) + ", r=" + random.pick(values));
    SCOPED_TRACE(text);
    Graph graph = parsed(text);
    if (!split_scans(graph)) continue;
    ++changed;
    expect_scans(split_scans, text,
                 static_cast<int>(std::ranges::count(graph.nodes, GraphOp::kScan, &Node::op)));
  }
  EXPECT_GE(changed, 20);
}

}  // namespace
}  // namespace weft
