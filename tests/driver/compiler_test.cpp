#include "driver/compiler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "driver/check/bisect.h"
#include "driver/graph_file.h"
#include "driver/passes.h"
#include "driver/print_level.h"
#include "driver/reproducer.h"
#include "driver/session.h"
#include "tests/import/onnx/model_writer.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

Graph graph_of(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return std::move(*graph);
}

constexpr const char* kChain = R"(
(x: f32[6,20], w: f32[20,16]) {
  a = exp x : f32[6,20]
  p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[6,16]
  y = tanh p : f32[6,16]
} -> (y))";

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) {
    HostTensor t(graph.type(v).dtype, graph.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_double(i, 0.01 * static_cast<double>((i * 37) % 101) - 0.5);
    inputs.push_back(std::move(t));
  }
  return inputs;
}

TEST(CompileGraph, EveryPassIsTimedAndVerified) {
  CompileOptions options;
  options.verify = true;
  auto c = compile_graph(graph_of(kChain), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ((*c)->timings.size(), passes().size());
  EXPECT_EQ((*c)->plan.kernels.size(), 2U);
}

TEST(CompileGraph, StopsAfterAPassByName) {
  CompileOptions options;
  options.stop_after = "plan";
  auto c = compile_graph(graph_of(kChain), options);
  ASSERT_TRUE(c.ok());
  EXPECT_FALSE((*c)->plan.kernels.empty());
  EXPECT_TRUE((*c)->kernels.empty());
}

TEST(RunPasses, ASliceGoesOnWhereAnotherEnded) {
  CompileOptions options;
  options.stop_after = "plan";
  const auto whole = compile_graph(graph_of(kChain), options);
  options.stop_after = "sink-movement";
  const auto sliced = compile_graph(graph_of(kChain), options);
  ASSERT_TRUE(whole.ok() && sliced.ok());
  EXPECT_TRUE((*sliced)->plan.kernels.empty());
  ASSERT_TRUE(run_passes(**sliced, passes_between("integer-products", "plan")).ok());
  EXPECT_EQ(*print_level(**sliced, "plan"), *print_level(**whole, "plan"));
  EXPECT_EQ((*sliced)->timings.size(), (*whole)->timings.size());
}

TEST(RunPasses, TheLastPassOfALevelGivesIt) {
  EXPECT_EQ(last_pass_of({"plan", "code"}), passes().back().name);
  EXPECT_EQ(last_pass_of({"tile-program", "graph"}), "plan");
  EXPECT_EQ(last_pass_of({"none"}), "");
}

/// Nothing else is quicker for a chain.
TEST(CompileGraph, AutoIsGreedyOfAChain) {
  std::string texts[2];
  for (const int greedy : {0, 1}) {
    CompileOptions options;
    options.planner = greedy != 0 ? "greedy" : "auto";
    options.compositions = "leaf";  // auto tries blocks of stages, too
    const auto c = compile_graph(graph_of(kChain), options);
    ASSERT_TRUE(c.ok()) << c.error().message;
    const std::string plan = *print_level(**c, "plan");
    EXPECT_EQ(plan.substr(0, plan.find('\n')), "plan " + options.planner + " {");
    texts[greedy] = plan.substr(plan.find('\n')) + *print_level(**c, "kernel");
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(CompileGraph, PlannersThatAreNotThereAreMistakes) {
  CompileOptions options;
  options.planner = "fastest";
  EXPECT_EQ(compile_graph(graph_of(kChain), options).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(compile_model("no such.onnx", options).error().code, ErrorCode::kInvalidInput);
}

TEST(CompileGraph, RunsThatEndBeforeAThreadIsAwakeWakeNone) {
  const auto is_brief = [](int rows) {
    const std::string x = "f32[" + std::to_string(rows) + ",1000]";
    CompileOptions options;
    options.threads = 4;
    auto c = compile_graph(graph_of(("(x: " + x + ") {\n  a = exp x : " + x +
                                     "\n  s = reduce a, axes={0}, combiner=sum : f32[1000]" +
                                     "\n  y = log s : f32[1000]\n} -> (y)")
                                        .c_str()),
                           options);
    EXPECT_TRUE(c.ok()) << c.error().message;
    return (*c)->program.brief;
  };
  EXPECT_TRUE(is_brief(40));
  EXPECT_FALSE(is_brief(4000));
}

/// A step that reads 256 KB of weights for one row takes what reading them takes: threads share it.
/// One of 4 KB they do not.
TEST(CompileGraph, StepsThatReadMuchAreShared) {
  const auto is_shared = [](int width) {
    const std::string n = std::to_string(width), row = "f32[1," + n + "]",
                      weights = "f32[" + n + "," + n + "]", rows = "f32[400,1," + n + "]";
    CompileOptions options;
    options.threads = 2;
    const std::string text = "(h0: " + row + ", x: " + rows + ", w: " + weights +
                             ") {\n  last, all = scan h0, x, w, carry_count=1, scanned_count=1, "
                             "x_reverse={false}, y_reverse={false} : " +
                             row + ", " + rows + "\n    region (h: " + row + ", e: " + row +
                             ", v: " + weights +
                             ") {\n      p = dot_general h, v, lhs_contract={1}, "
                             "rhs_contract={0} : " +
                             row + "\n      a = add p, e : " + row + "\n      n = tanh a : " + row +
                             "\n    } -> (n, n)\n} -> (all)";
    auto c = compile_graph(graph_of(text.c_str()), options);
    EXPECT_TRUE(c.ok()) << c.error().message;
    const auto& steps = (*c)->program.steps;
    const auto loop = std::ranges::find(steps, ProgramStep::Kind::kLoop, &ProgramStep::kind);
    return loop != steps.end() && std::ranges::any_of(loop->loop_step->body, [](const auto& s) {
             return s.kind == ProgramStep::Kind::kLaunch && !s.launch.serial;
           });
  };
  EXPECT_TRUE(is_shared(256));
  EXPECT_FALSE(is_shared(32));
}

/// A branch whose condition is a constant only when its surroundings are folded, and inside it
/// another that depends on what it captures.
TEST(CompileGraph, BranchesVanishWhoseConditionsFoldLate) {
  const char* text = R"(
(x: f32[4]) {
  n = constant 3 : i64[]
  two = constant 2 : i64[]
  large = gt n, two : bool[]
  y = if large, x, n : f32[4]
    region (a: f32[4], m: i64[]) {
      five = constant 5 : i64[]
      more = gt m, five : bool[]
      inner = if more, a : f32[4]
        region (b: f32[4]) {
          e = exp b : f32[4]
        } -> (e)
        region (b: f32[4]) {
          t = tanh b : f32[4]
        } -> (t)
    } -> (inner)
    region (a: f32[4], m: i64[]) {
    } -> (a)
} -> (y))";
  auto c = compile_graph(graph_of(text), {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  ASSERT_EQ((*c)->graph.nodes.size(), 1U) << print((*c)->graph);
  EXPECT_EQ((*c)->graph.nodes[0].op, GraphOp::kElementwise);
  EXPECT_EQ((*c)->timings.size(), passes().size());
}

TEST(CompileGraph, StopsBeforeAllPasses) {
  CompileOptions options;
  options.stop_after = kImportPass;
  auto c = compile_graph(graph_of(kChain), options);
  ASSERT_TRUE(c.ok());
  EXPECT_TRUE((*c)->timings.empty());
}

TEST(CompileGraph, AnInternalErrorLeavesAReproducer) {
  const std::string folder = testing::TempDir() + "weft-reproducer-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const char* text = R"(
(x: f32[100]) {
  k = constant splat 0.5 : f32[100]
  y = add x, k : f32[100]
} -> (y))";
  CompileOptions options;
  options.reproducer_dir = folder;
  options.tamper = [](KernelFunction&) { WEFT_CHECK(false, "planted"); };
  const auto c = compile_graph(graph_of(text), options);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().code, ErrorCode::kInternal);
  EXPECT_NE(c.error().message.find("planted"), std::string::npos);
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".graph") path = entry.path().string();
  }
  EXPECT_NE(c.error().message.find(kReproducerIs + path), std::string::npos) << c.error().message;
  // The whole graph, with the constant that is too large for text.
  const auto read = read_graph_file(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(print(*read), print(graph_of(text)));
  options.tamper = nullptr;
  EXPECT_TRUE(compile_model(path, options).ok());
  std::filesystem::remove_all(folder);
}

TEST(CompileModel, ArtefactsKeepSafeRangesOfIndices) {
  const std::string path = testing::TempDir() + "weft-gather-" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary)
      << onnx::TestModel()
             .input("ids", DType::kI64, {3})
             .initializer("table", onnx::f32_tensor({7, 1}, {0, 1, 2, 3, 4, 5, 6}))
             .node({"Gather", {"table", "ids"}, {"y"}})
             .output("y")
             .model();
  const auto c = compile_model(path, {});
  std::filesystem::remove(path);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ((*c)->program.inputs[0].lowest, 0);
  EXPECT_EQ((*c)->program.inputs[0].highest, 6);
}

constexpr const char* kShares = R"(
(x: f32[8,256]) {
  m = reduce x, axes={1}, combiner=sum : f32[8]
  b = broadcast m, dims={0} : f32[8,256]
  q = div x, b : f32[8,256]
  y = exp q : f32[8,256]
} -> (y))";

TEST(CompileGraph, FastMathListsWhatItSubstitutesAndStaysWithinItsBounds) {
  std::vector<HostTensor> results;
  for (const bool fast : {false, true}) {
    CompileOptions options;
    options.fast_math = fast;
    options.verify = true;
    auto c = compile_graph(graph_of(kShares), options);
    ASSERT_TRUE(c.ok()) << c.error().message;
    const auto& features = (*c)->target.features;
    const bool has_fma = std::find(features.begin(), features.end(), "fma") != features.end();
    EXPECT_EQ(!(*c)->substitutions.empty(), fast && has_fma);
    HostTensor x(DType::kF32, {8, 256});
    for (int64_t i = 0; i < x.size(); ++i)
      x.set_double(i, i % 256 == 0 ? 1 : 0.05 * static_cast<double>((i * 37) % 101) - 2.4);
    auto session = Session::create((*c)->program, 1);
    ASSERT_TRUE(session.ok());
    auto outputs = (*session)->run({x});
    ASSERT_TRUE(outputs.ok());
    results.push_back((*outputs)[0]);
  }
  for (int64_t i = 0; i < results[0].size(); ++i) {
    const double exact = results[0].at_double(i), fast = results[1].at_double(i);
    if (std::isinf(exact) || std::isinf(fast)) continue;
    const double size = std::abs(std::log(exact));
    EXPECT_NEAR(fast, exact, exact * (6e-7 + 2.7e-7 * size)) << i;
  }
}

TEST(CompileModel, ReadsAPrintedGraph) {
  const std::string path =
      testing::TempDir() + "weft-compiler-" + std::to_string(getpid()) + ".graph";
  std::ofstream(path) << kChain;
  auto c = compile_model(path, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  auto session = Session::create((*c)->program, 1);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE((*session)->run(inputs_of((*c)->graph)).ok());
  std::filesystem::remove(path);
}

TEST(Bisect, FindsNothingInARightProgram) {
  const Graph graph = graph_of(kChain);
  auto found = bisect(graph, inputs_of(graph), {}, 1e-3, 1e-4);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_FALSE(found->has_value());
}

/// Makes the first hyperbolic tangent of a kernel an exponential.
void plant(KernelBlock& block) {
  for (KernelInstruction& i : block.body) {
    auto* apply = std::get_if<ApplyPayload>(&i.payload);
    if (apply != nullptr && apply->op == ScalarOp::kTanh) apply->op = ScalarOp::kExp;
    for (KernelBlock& region : i.regions) plant(region);
  }
}

TEST(Bisect, FindsTheKernelThatATestMadeWrong) {
  const Graph graph = graph_of(kChain);
  CompileOptions options;
  options.tamper = [](KernelFunction& f) {
    for (KernelPhase& phase : f.phases) plant(phase.body);
  };
  auto found = bisect(graph, inputs_of(graph), options, 1e-3, 1e-4);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->value, "y");
  EXPECT_FALSE((*found)->difference.empty());
  EXPECT_EQ((*found)->level, DifferingLevel::kBelowTileProgram);
  EXPECT_TRUE(verify_graph((*found)->reduced).ok());
  // The product and what follows it, with the exponentials that it reads as a constant.
  EXPECT_TRUE((*found)->reduced.inputs.empty());
}

TEST(Bisect, TellsAWrongTileProgramFromWrongCode) {
  const Graph graph = graph_of(R"(
(x: f32[5,24]) {
  y = tanh x : f32[5,24]
} -> (y))");
  const auto inputs = inputs_of(graph);
  const auto c = compile_graph(graph, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  const TensorProgram& program = (*c)->tensors;
  const auto want = evaluate(program, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  ASSERT_EQ((*c)->plan.kernels.size(), 1U);
  PlannedKernel kernel = (*c)->plan.kernels[0];
  std::map<TensorId, HostTensor> values = {{program.inputs[0], inputs[0]},
                                           {program.outputs[0], (*want)[0]}};
  EXPECT_EQ(level_of_difference(program, kernel, values, {1e-3, 1e-4}),
            DifferingLevel::kBelowTileProgram);

  std::string text = print(kernel.schedule.program);
  const size_t at = text.find("tanh");
  ASSERT_NE(at, std::string::npos) << text;
  auto wrong = parse_tile_program(text.replace(at, 4, "exp"));
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  kernel.schedule.program = std::move(*wrong);
  EXPECT_EQ(level_of_difference(program, kernel, values, {1e-3, 1e-4}),
            DifferingLevel::kTileProgram);
  values.erase(program.inputs[0]);
  EXPECT_EQ(level_of_difference(program, kernel, values, {1e-3, 1e-4}), DifferingLevel::kUnknown);
}

}  // namespace
}  // namespace weft
