#include "rewrite/roll_loops.h"

#include <fmt/format.h>

#include <random>

#include "interp/interpreter.h"
#include "rewrite/hoist_from_scans.h"
#include "rewrite/merge_equal_nodes.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/repeated_pieces.h"
#include "rewrite/simplify_graph.h"
#include "rewrite/unroll_scans.h"
#include "tests/graph/random_graph.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

int count_of(const Graph& graph, GraphOp op) {
  return static_cast<int>(std::ranges::count(graph.nodes, op, &Node::op));
}

/// Five steps of h = tanh(x[t]·w + h·u), written out; `last` is what the graph gives.
std::string five_steps(const std::string& first_product, const std::string& outputs) {
  std::string text = "(x: f32[5,2,3], w: f32[3,4], u: f32[4,4], h0: f32[2,4]) {\n";
  for (int t = 0; t < 5; ++t) {
    text += fmt::format(
        "  s{0} = slice x, start={{{0},0,0}}, step={{1,1,1}} : f32[1,2,3]\n"
        "  x{0} = reshape s{0} : f32[2,3]\n"
        "  p{0} = dot_general x{0}, w, lhs_batch={{}}, rhs_batch={{}}, lhs_contract={{1}}, "
        "rhs_contract={{0}} : f32[2,4]\n",
        t);
    text += t == 0 && !first_product.empty()
                ? first_product
                : fmt::format(
                      "  q{0} = dot_general h{0}, u, lhs_batch={{}}, rhs_batch={{}}, "
                      "lhs_contract={{1}}, rhs_contract={{0}} : f32[2,4]\n",
                      t);
    text += fmt::format(
        "  a{0} = add p{0}, q{0} : f32[2,4]\n"
        "  h{1} = tanh a{0} : f32[2,4]\n",
        t, t + 1);
  }
  return text + "} -> (" + outputs + ")";
}

/// Both graphs give the same bits on random inputs.
void expect_same_results(const Graph& actual, const Graph& expected, uint64_t seed) {
  const std::vector<HostTensor> inputs = random_inputs(expected, seed);
  const auto a = interpret(actual, inputs), e = interpret(expected, inputs);
  ASSERT_TRUE(a.ok()) << a.error().message << "\n" << print(actual);
  ASSERT_TRUE(e.ok()) << e.error().message;
  EXPECT_EQ(difference(*a, *e), "") << print(expected) << "\n->\n" << print(actual);
}

TEST(RollLoops, MakesAScanOfEqualSteps) {
  Graph graph = parsed(five_steps("", "h5"));
  const Graph before = graph;
  ASSERT_TRUE(roll_loops(graph));
  remove_dead_nodes(graph);
  EXPECT_EQ(print(graph), R"((x: f32[5,2,3], w: f32[3,4], u: f32[4,4], h0: f32[2,4]) {
  v34 = slice x, start={0,0,0}, step={1,1,1} : f32[5,2,3]
  v35 = reshape v34 : f32[5,1,2,3]
  v36 = scan h0, v35, w, u, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={} : f32[2,4]
    region (v0: f32[2,4], v1: f32[1,2,3], v2: f32[3,4], v3: f32[4,4]) {
      v4 = reshape v1 : f32[2,3]
      v5 = dot_general v4, v2, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2,4]
      v6 = dot_general v0, v3, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2,4]
      v7 = add v5, v6 : f32[2,4]
      v8 = tanh v7 : f32[2,4]
    } -> (out0=v8)
} -> (h5=v36))");
  expect_same_results(graph, before, 0);
}

/// Layers with a weight in common and one of their own, which a CPU lays out in panels.
TEST(RollLoops, LeavesLayersWhereStepsAreAskedFor) {
  std::string text = "(u: f32[2,2], h0: f32[2,2]) {\n";
  for (int t = 0; t < 5; ++t) {
    text += fmt::format(
        "  w{0} = constant {{{0}, 2, 3, 4}} : f32[2,2]\n"
        "  p{0} = dot_general h{0}, u, lhs_batch={{}}, rhs_batch={{}}, lhs_contract={{1}}, "
        "rhs_contract={{0}} : f32[2,2]\n"
        "  q{0} = dot_general p{0}, w{0}, lhs_batch={{}}, rhs_batch={{}}, lhs_contract={{1}}, "
        "rhs_contract={{0}} : f32[2,2]\n"
        "  h{1} = tanh q{0} : f32[2,2]\n",
        t, t + 1);
  }
  text += "} -> (h5)";
  Graph layers = parsed(text), loop = layers;
  EXPECT_FALSE(roll_steps(layers));
  EXPECT_TRUE(roll_loops(loop));
  expect_same_results(loop, layers, 3);
}

TEST(RollLoops, StacksWhatOthersRead) {
  Graph graph = parsed(five_steps("", "h2, h4, h5"));
  const Graph before = graph;
  ASSERT_TRUE(roll_loops(graph));
  EXPECT_EQ(count_of(graph, GraphOp::kScan), 1);
  EXPECT_EQ(count_of(graph, GraphOp::kDotGeneral), 0);
  expect_same_results(graph, before, 1);
}

TEST(RollLoops, LeavesAFirstStepOfAnotherFormOutside) {
  Graph graph = parsed(five_steps("  q0 = add p0, h0 : f32[2,4]\n", "h1, h5"));
  const Graph before = graph;
  ASSERT_TRUE(roll_loops(graph));
  EXPECT_EQ(count_of(graph, GraphOp::kScan), 1);
  EXPECT_EQ(count_of(graph, GraphOp::kDotGeneral), 1) << print(graph);
  expect_same_results(graph, before, 2);
}

/// A recurrence whose third step reads what another product made of the second is no loop.
TEST(RollLoops, LeavesChainsWithSomethingBetween) {
  std::string text = five_steps("", "h5");
  const std::string between =
      "  m = dot_general h2, h2, lhs_batch={}, rhs_batch={}, lhs_contract={0}, rhs_contract={0} : "
      "f32[4,4]\n  z = dot_general h2, m, lhs_batch={}, rhs_batch={}, lhs_contract={1}, "
      "rhs_contract={0} : f32[2,4]\n";
  const size_t third = text.find("  s2 =");
  text.insert(third, between);
  const size_t read = text.find("a3 = add p3, q3");
  text.replace(read, 15, "a3 = add z, q3");
  Graph graph = parsed(text);
  const Graph before = graph;
  roll_loops(graph);
  EXPECT_EQ(count_of(graph, GraphOp::kScan), 0);
  expect_same_results(graph, before, 3);
}

TEST(RollLoops, LeavesProductsSideBySide) {
  std::string text = "(x: f32[6,2,3], w: f32[3,3]) {\n";
  std::string outputs;
  for (int t = 0; t < 6; ++t) {
    text += fmt::format(
        "  s{0} = slice x, start={{{0},0,0}}, step={{1,1,1}} : f32[1,2,3]\n"
        "  x{0} = reshape s{0} : f32[2,3]\n"
        "  p{0} = dot_general x{0}, w, lhs_batch={{}}, rhs_batch={{}}, lhs_contract={{1}}, "
        "rhs_contract={{0}} : f32[2,3]\n",
        t);
    outputs += fmt::format("{}p{}", t == 0 ? "" : ", ", t);
  }
  expect_unchanged(roll_loops, text + "} -> (" + outputs + ")");
}

TEST(HoistFromScans, TakesTheInputsProductOut) {
  Graph graph = parsed(five_steps("", "h2, h5"));
  const Graph before = graph;
  ASSERT_TRUE(roll_loops(graph));
  ASSERT_TRUE(hoist_from_scans(graph));
  EXPECT_TRUE(verify_graph(graph).ok());
  EXPECT_EQ(count_of(graph, GraphOp::kDotGeneral), 1) << print(graph);
  EXPECT_FALSE(hoist_from_scans(graph));
  expect_same_results(graph, before, 4);
}

/// A scan of random arithmetic around products with shared weights: `layers` cells a step, the
/// first on the step's input, each further one on the one before, so that written out they stand
/// time-major.
class RandomRecurrence {
 public:
  explicit RandomRecurrence(uint64_t seed) : rng_(seed) {}

  std::string text() {
    const int trips = 4 + below(4), layers = 1 + below(3);
    const bool reversed = below(2) == 1;
    text_ = fmt::format("(xs: f32[{},2,3], w0: f32[3,4]", trips);
    std::string operands, inputs, outputs, types;
    for (int l = 0; l < layers; ++l) {
      text_ += fmt::format(", h{0}: f32[2,4], u{0}: f32[4,4]", l);
      if (l > 0) text_ += fmt::format(", w{}: f32[4,4]", l);
      operands += fmt::format("h{}, ", l);
      inputs += fmt::format("g{}: f32[2,4], ", l);
      types += l == 0 ? "f32[2,4]" : ", f32[2,4]";
    }
    text_ += ") {\n";
    std::string results;
    for (int l = 0; l < layers; ++l) results += fmt::format("r{}, ", l);
    text_ += fmt::format("  {}ys = scan {}xs", results, operands);
    std::string captures;
    for (int l = 0; l < layers; ++l) {
      text_ += fmt::format(", w{0}, u{0}", l);
      captures += fmt::format(", cw{0}: f32[{1},4], cu{0}: f32[4,4]", l, l == 0 ? 3 : 4);
    }
    text_ += fmt::format(
        ", carry_count={}, scanned_count=1, x_reverse={{{}}}, y_reverse={{false}} : {}, "
        "f32[{},2,4]\n    region ({}x: f32[2,3]{}) {{\n",
        layers, reversed, types, trips, inputs, captures);
    std::string below_it = "x", next;
    for (int l = 0; l < layers; ++l) {
      add_cell(l, below_it);
      below_it = fmt::format("n{}", l);
      next += below_it + ", ";
    }
    text_ += fmt::format("    }} -> ({}y={})\n}} -> ({}ys)", next, below_it, results);
    return text_;
  }

 private:
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }

  void add_cell(int layer, const std::string& input) {
    const std::string dot = "lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0}";
    text_ +=
        fmt::format("      p{0} = dot_general {1}, cw{0}, {2} : f32[2,4]\n", layer, input, dot);
    text_ += fmt::format("      q{0} = dot_general g{0}, cu{0}, {1} : f32[2,4]\n", layer, dot);
    std::vector<std::string> values{fmt::format("p{}", layer), fmt::format("q{}", layer),
                                    fmt::format("g{}", layer)};
    text_ += fmt::format("      e{0}_0 = add p{0}, q{0} : f32[2,4]\n", layer);
    values.push_back(fmt::format("e{}_0", layer));
    const char* unary[] = {"tanh", "sigmoid", "neg", "abs"};
    const char* binary[] = {"add", "mul", "sub", "max"};
    for (int i = 1; i < 2 + below(5); ++i) {
      const std::string name = fmt::format("e{}_{}", layer, i);
      const std::string a = values.back();
      text_ +=
          below(2) == 0
              ? fmt::format("      {} = {} {} : f32[2,4]\n", name, unary[below(4)], a)
              : fmt::format("      {} = {} {}, {} : f32[2,4]\n", name, binary[below(4)], a,
                            values[static_cast<size_t>(below(static_cast<int>(values.size())))]);
      values.push_back(name);
    }
    text_ += fmt::format("      n{} = tanh {} : f32[2,4]\n", layer, values.back());
  }

  std::mt19937_64 rng_;
  std::string text_;
};

TEST(RollLoops, FindsRandomRecurrencesThatWereWrittenOut) {
  int apart = 0;
  for (uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph before = parsed(RandomRecurrence(seed).text());
    Graph graph = before;
    ASSERT_TRUE(unroll_scans(graph, 16));
    simplify_graph(graph);
    merge_equal_nodes(graph);
    remove_dead_nodes(graph);
    ASSERT_EQ(count_of(graph, GraphOp::kScan), 0);
    ASSERT_TRUE(roll_loops(graph)) << print(graph);
    ASSERT_TRUE(verify_graph(graph).ok()) << verify_graph(graph).error().message << print(graph);
    const int scans = count_of(graph, GraphOp::kScan);
    const auto& scan = std::get<ScanAttrs>(before.nodes[0].attrs);
    EXPECT_EQ(scans, scan.carry_count) << "each layer a scan of its own\n" << print(graph);
    apart += scans > 1;
    expect_same_results(graph, before, seed);
    hoist_from_scans(graph);
    ASSERT_TRUE(verify_graph(graph).ok()) << verify_graph(graph).error().message << print(graph);
    expect_same_results(graph, before, seed);
  }
  EXPECT_GE(apart, 50);
}

}  // namespace
}  // namespace weft
