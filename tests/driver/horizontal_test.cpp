// Horizontal transformation (Souffle 6.1): independent expressions side by side, and what they read
// in common loaded once.

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

/// A weight of the model: what it is made of folds into a constant.
std::string weight(const std::string& name, int rows, int columns) {
  const std::string type = " : f32[" + std::to_string(rows) + "," + std::to_string(columns) + "]\n";
  return "  i" + name + " = iota axis=" + (name.size() % 2 == 0 ? "0" : "1") + type + "  j" + name +
         " = sin i" + name + type + "  " + name + " = " + (name.back() % 2 == 0 ? "tanh" : "cos") +
         " j" + name + type;
}
std::string product(const std::string& name, const std::string& x, const std::string& w, int rows,
                    int columns) {
  return "  " + name + " = dot_general " + x + ", " + w +
         ", lhs_contract={1}, rhs_contract={0} : f32[" + std::to_string(rows) + "," +
         std::to_string(columns) + "]\n";
}
std::string of_type(const std::string& statement, int rows, int columns) {
  return "  " + statement + " : f32[" + std::to_string(rows) + "," + std::to_string(columns) +
         "]\n";
}

class Horizontal : public GpuPipeline {
 protected:
  static EmulatedRun run(const std::string& graph, const char* planner = "subprogram") {
    SCOPED_TRACE(graph);
    CompileOptions options;
    options.planner = planner;
    return run_and_compare(graph, *find_target("a100-40gb"), 1e-3, false, options);
  }
  /// Contractions that read a tensor.
  static int64_t products_of(const EmulatedRun& run, const std::string& tensor) {
    const TensorProgram& program = run.compilation->tensors;
    return std::ranges::count_if(program.exprs, [&](const TensorExpr& e) {
      bool reads = false;
      visit(e.body, [&](const Scalar& s) {
        reads |= s.kind == Scalar::Kind::kRead &&
                 program.tensors[static_cast<size_t>(s.symbol)].name == tensor;
      });
      return e.is_contraction && reads;
    });
  }
};

TEST_F(Horizontal, QueriesKeysAndValuesAreOneProduct) {
  std::string graph = "(x: f32[24,32]) {\n";
  for (const char* p : {"q", "k", "v"}) {
    graph += weight(std::string("w") + p, 32, 16);
    graph += product(p, "x", std::string("w") + p, 24, 16);
  }
  graph += "  t = transpose k, permutation={1,0} : f32[16,24]\n" + product("s", "q", "t", 24, 24) +
           of_type("e = tanh s", 24, 24) + product("y", "e", "v", 24, 16) + "} -> (y)";
  const EmulatedRun done = run(graph);
  ASSERT_NE(done.compilation, nullptr);
  EXPECT_EQ(products_of(done, "x"), 1) << print(done.compilation->tensors);
}

TEST_F(Horizontal, GatesOfARecurrenceAreAProductOfEachInput) {
  std::string graph = "(x: f32[1,32], h: f32[1,24], c: f32[1,24]) {\n";
  for (const char* g : {"a", "b", "d", "e"}) {
    const std::string n = g;
    graph += weight("w" + n, 32, 24) + weight("uu" + n, 24, 24);
    graph += product("p" + n, "x", "w" + n, 1, 24) + product("q" + n, "h", "uu" + n, 1, 24);
    graph += of_type("s" + n + " = add p" + n + ", q" + n, 1, 24);
  }
  graph += of_type("ga = sigmoid sa", 1, 24) + of_type("gb = sigmoid sb", 1, 24) +
           of_type("gd = tanh sd", 1, 24) + of_type("ge = sigmoid se", 1, 24) +
           of_type("f = mul gb, c", 1, 24) + of_type("g = mul ga, gd", 1, 24) +
           of_type("z = add f, g", 1, 24) + of_type("r = tanh z", 1, 24) +
           of_type("y = mul ge, r", 1, 24) + "} -> (y, z)";
  const EmulatedRun done = run(graph);
  ASSERT_NE(done.compilation, nullptr);
  EXPECT_EQ(products_of(done, "x"), 1);
  EXPECT_EQ(products_of(done, "h"), 1);
  EXPECT_EQ(done.launches.size(), 1U) << *print_level(*done.compilation, "plan");
}

/// Experts of one width and gates of another are one product, too.
TEST_F(Horizontal, ExpertsAndGatesAreOneProduct) {
  std::string graph = "(x: f32[1,48]) {\n", sum = "";
  for (int e = 0; e < 4; ++e) {
    const std::string n = std::to_string(e);
    graph += weight("w" + n, 48, 16) + product("p" + n, "x", "w" + n, 1, 16);
    graph += of_type("r" + n + " = tanh p" + n, 1, 16);
  }
  graph += weight("g", 48, 4) + product("s", "x", "g", 1, 4);
  graph += of_type("a = add r0, r1", 1, 16) + of_type("b = add r2, r3", 1, 16) +
           of_type("c = add a, b", 1, 16) + "} -> (c, s)";
  // What is an output stays a product of its own.
  const EmulatedRun done = run(graph);
  ASSERT_NE(done.compilation, nullptr);
  EXPECT_EQ(products_of(done, "x"), 2);
  const size_t output = graph.rfind("(c, s)");
  graph.replace(output, 6, "(c, t)");
  graph.insert(output - 5, of_type("t = sigmoid s", 1, 4));
  const EmulatedRun inside = run(graph);
  ASSERT_NE(inside.compilation, nullptr);
  EXPECT_EQ(products_of(inside, "x"), 1);
}

/// Branches of a convolution in groups, each written out: slices of one tensor, side by side in one
/// launch, each slice loaded by its branch alone.
TEST_F(Horizontal, BranchesOfAConvolutionShareALaunch) {
  std::string graph = "(x: f32[1,256,7,7], w: f32[64,4,4,3,3]) {\n", parts;
  for (int b = 0; b < 64; ++b) {
    const std::string n = std::to_string(b);
    graph += "  s" + n + " = slice x, start={0," + std::to_string(4 * b) +
             ",0,0}, step={1,1,1,1} : f32[1,4,7,7]\n  v" + n + " = slice w, start={" + n +
             ",0,0,0,0}, step={1,1,1,1,1} : f32[1,4,4,3,3]\n  u" + n + " = reshape v" + n +
             " : f32[4,4,3,3]\n  c" + n + " = convolution s" + n + ", u" + n +
             ", strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, "
             "groups=1 : f32[1,4,7,7]\n  z" +
             n + " = tanh c" + n + " : f32[1,4,7,7]\n";
    parts += (b == 0 ? "z" : ", z") + n;
  }
  graph += "  y = concat " + parts + ", axis=1 : f32[1,256,7,7]\n} -> (y)";
  CompileOptions options;
  options.device = *find_target("a100-40gb");
  options.planner = "subprogram";
  options.stop_after = "plan";
  const auto parsed = parse_graph(graph);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const auto c = compile_graph(*parsed, options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  const std::string plan = *print_level(**c, "plan");
  ASSERT_EQ((*c)->plan.kernels.size(), 1U) << plan;
  EXPECT_EQ((*c)->plan.kernels[0].members.size(), 65U);
  EXPECT_EQ(totals_of(**c).launches, 1) << plan;
}

/// Nothing hands anything on: what one kernel holds asks for the input once, what has another shape
/// runs beside it in the same launch.
TEST_F(Horizontal, ExpressionsOfAnyShapesReadAnInputInOneLaunch) {
  const std::string shared = R"((x: f32[96,160]EXTRA) {
  s = reduce x, axes={0}, combiner=sum : f32[160]
  r = reduce x, axes={1}, combiner=max : f32[96]
MORE} -> (s, rOUT))";
  const auto with = [&](const char* extra, const char* more, const char* out) {
    return replaced(replaced(replaced(shared, "EXTRA", extra), "MORE", more), "OUT", out);
  };
  const EmulatedRun same = run(with("", "", ""));
  ASSERT_NE(same.compilation, nullptr);
  EXPECT_EQ(same.launches.size(), 1U);
  ASSERT_TRUE(same.compilation->plan.kernels[0].members.empty());
  int64_t loaded = 0;
  for (const simt::BufferTraffic& b : same.launches[0].report.traffic.buffers)
    loaded += b.name == "x" ? b.loads.distinct : 0;
  EXPECT_EQ(loaded, 96 * 160 * 4) << same.code();
  const EmulatedRun others = run(with(", v: f32[40,80]",
                                      "  h = slice x, start={0,0}, step={1,1} : f32[40,80]\n"
                                      "  y = mul h, v : f32[40,80]\n",
                                      ", y"));
  ASSERT_NE(others.compilation, nullptr);
  EXPECT_EQ(others.launches.size(), 1U) << *print_level(*others.compilation, "plan");
}

}  // namespace
}  // namespace weft::testing
