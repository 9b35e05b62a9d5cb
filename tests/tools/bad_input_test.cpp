// What the command says and returns when its input is wrong: the exit codes of the contract, one
// message, nothing left behind.

#include <gmock/gmock.h>

#include "io/npy.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/tools/command.h"

namespace weft::testing {
namespace {

using onnx::TestModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// One line on stderr that holds these words.
void expect_message(const CommandRun& run, int exit_code, const std::vector<std::string>& words) {
  EXPECT_EQ(run.exit_code, exit_code) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  for (const std::string& word : words) EXPECT_THAT(run.err, HasSubstr(word));
}

class BadInput : public ::testing::Test {
 protected:
  CommandRun run_model(const std::string& content, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"run", folder_.write("m.onnx", content), "--no-cache"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_weft(arguments);
  }
  std::string tensor(const std::string& name, const HostTensor& value) {
    EXPECT_TRUE(save_npy(folder_.path(name), value).ok());
    return folder_.path(name);
  }

  TestFolder folder_;
};

TEST_F(BadInput, FilesThatAreNoModels) {
  expect_message(run_weft({"run", folder_.path("none.onnx")}), 2, {"none.onnx", "No such file"});
  expect_message(run_weft({"run", folder_.path()}), 2, {"is a directory"});
  expect_message(run_model("PK\x03\x04 hello"), 2, {"m.onnx"});
  const std::string good = small_model();
  expect_message(run_model(good.substr(0, good.size() / 2)), 2, {"m.onnx"});
  expect_message(run_weft({"run", folder_.write("m.graph", "(x: f32[2]) { y = nothing x")}), 2,
                 {"m.graph", "1:"});
  expect_message(run_weft({"run", folder_.write("m.weft", "")}), 2, {"not a weft artefact"});
  expect_message(run_weft({"run", folder_.write("m.hlo", "HloModule m\nENTRY")}), 2,
                 {"m.hlo", "line 2, column 6"});
  const std::string unknown = folder_.write("f.hlo", R"(HloModule m
ENTRY main {
  x = f8e4m3fn[3] parameter(0)
  y = f8e4m3fn[3] cholesky(x)
  ROOT r = f32[3] custom-call(x), custom_call_target="mine"
})");
  expect_message(run_weft({"explain", unknown}), 3, {"f.hlo", "f8e4m3fn[3]"});
}

/// Names are bytes: none of them reaches a terminal as it is, or breaks a JSON text.
TEST_F(BadInput, NamesThatAreNoText) {
  const std::string graph = folder_.write(
      "m.graph", "(x: f32[2]) { \"a\\xff\\x1b[1m\" = exp x : f32[2] } -> (\"a\\xff\\x1b[1m\")");
  const auto output_of = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, graph);
    const CommandRun run = run_weft(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  for (const auto& text : {output_of({"run"}), output_of({"explain"}),
                           output_of({"bench", "--runs", "1", "--per-kernel"})}) {
    EXPECT_THAT(text, HasSubstr("a\\xff\\x1b[1m"));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
  output_of({"explain", "--json"});
  output_of({"bench", "--runs", "1", "--trace", folder_.path("trace.json")});
  expect_message(run_weft({"explain", graph, "--why", "a\x1b,b"}), 2, {"a\\x1b"});
}

TEST_F(BadInput, CommandsThatAreNot) {
  expect_message(run_weft({"frob", "m.onnx"}), 2, {"unknown command 'frob'", "--help"});
  expect_message(run_weft({"calibrate", "--threads", "1", "-o", folder_.path("none/m.target")}), 2,
                 {"none/m.target"});
}

TEST_F(BadInput, DescriptionsOfMachines) {
  const std::string model = folder_.write("m.onnx", small_model());
  const auto run = [&](const std::string& target) {
    return run_weft({"run", model, "--no-cache", "--bind", "N=2", "--target", target});
  };
  const std::string measured = folder_.path("mine.target");
  ASSERT_EQ(
      run_weft({"calibrate", "--threads", "1", "--most-bytes", "65536", "-o", measured}).exit_code,
      0);
  EXPECT_EQ(run(measured).exit_code, 0);
  EXPECT_EQ(run("x86-64-v2").exit_code, 0);
  const std::string far = folder_.write("far.target", "name far\nfeatures avx9000\n");
  expect_message(run(far), 4, {"avx9000"});
  const auto without_running = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"explain", model,      "--no-cache", "--bind",
                                          "N=2",     "--target", far};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_weft(arguments);
  };
  const std::string page = folder_.path("far.html");
  EXPECT_EQ(without_running({}).exit_code, 0);
  EXPECT_EQ(without_running({"--html", page}).exit_code, 0);
  expect_message(without_running({"--html", page, "--measure"}), 4, {"avx9000"});
  expect_message(run(folder_.write("bad.target", "name bad\nthreads many\n")), 2,
                 {"bad.target", "2"});
  expect_message(run(folder_.path("none.target")), 2, {"none.target"});
  expect_message(run(folder_.path()), 2, {"unknown target"});
}

TEST_F(BadInput, OptionsThatDoNotFit) {
  const std::string model = folder_.write("m.onnx", small_model());
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", model, "--no-cache", "--bind", "N=2"});
    return run_weft(more);
  };
  expect_message(run({"--plan", "fastest"}), 2,
                 {"fastest", "none, xla, greedy, span, dp, ilp, chain, subprogram, best or auto"});
  expect_message(run({"--plan", "mine.plan"}), 2, {"cannot read the plan 'mine.plan'"});
  EXPECT_EQ(run({"--plan", "greedy"}).exit_code, 0);
  expect_message(run({"--target", "cuda"}), 4, {"cuda"});
  expect_message(run({"--bind", "M=2"}), 2, {"M"});
  expect_message(run({"--bind", "N=-2"}), 2, {"N=-2"});
  expect_message(run({"--bind", "N=4611686018427387904"}), 2, {"x"});
  expect_message(run({"--input", "x"}), 2, {"NAME=FILE"});
  EXPECT_EQ(run({"--thread", "2"}).exit_code, 2);
  expect_message(run({"--compositions", "leaf,team"}), 2,
                 {"team", "leaf, block, grid, chain, recur and cluster"});
  EXPECT_EQ(run({"--plan", "dp", "--parameters", "beam=2,top=2"}).exit_code, 0);
  expect_message(run({"--plan", "dp", "--parameters", "width=2"}), 2, {"width", "top, beam"});
  expect_message(run({"--parameters", "beam=2"}), 2, {"'auto' has no parameter 'beam'"});
  expect_message(run_weft({"run", model, "--no-cache"}), 2, {"N", "--bind"});
}

TEST_F(BadInput, VersionsThatAreNone) {
  const std::string model = folder_.write("m.onnx", small_model());
  const auto compile = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", model, "--no-cache", "-o", folder_.path("m.weft")});
    return run_weft(more);
  };
  EXPECT_EQ(compile({"--version-for", "N=1,3"}).exit_code, 0);
  expect_message(compile({"--version-for", "N"}), 2, {"--version-for N", "DIM=N,N"});
  expect_message(compile({"--version-for", "N="}), 2, {"DIM=N,N"});
  expect_message(compile({"--version-for", "N=1,,2"}), 2, {"N a number"});
  expect_message(compile({"--version-for", "N=1,-2"}), 2, {"N a number"});
  expect_message(compile({"--version-for", "N=1,1"}), 2, {"1 stands there twice"});
  expect_message(compile({"--version-for", "N=1", "--version-for", "N=2"}), 2, {"given twice"});
  expect_message(compile({"--version-for", "M=1,2"}), 2, {"M"});
  std::string many = "N=1";
  for (int i = 2; i <= 65; ++i) many += "," + std::to_string(i);
  expect_message(compile({"--version-for", many}), 2, {"at most 64 versions"});
}

TEST_F(BadInput, WhatCannotStartUnfused) {
  const std::string model = folder_.write("m.onnx", small_model());
  for (const char* target : {"interp", "simt"})
    expect_message(run_weft({"run", model, "--async", "--bind", "N=2", "--target", target}), 2,
                   {"--async", target});
  expect_message(run_weft({"run", folder_.path("m.weft"), "--async"}), 2, {"--async", "artefact"});
  expect_message(run_weft({"run", model, "--async"}), 2, {"N", "--bind"});
  EXPECT_EQ(run_weft({"explain", model, "--async"}).exit_code, 2);
}

TEST_F(BadInput, PrecisionsThatThereAreNot) {
  const std::string model = folder_.write("m.onnx", small_model());
  for (const char* command : {"run", "bench", "explain", "bisect"})
    expect_message(run_weft({command, model, "--precision", "f64"}), 2, {"f64", "model, bf16"});
  const auto on = [&](const char* target) {
    return run_weft({"run", model, "--precision", "bf16", "--target", target});
  };
  expect_message(on("interp"), 2, {"--precision", "interp"});
  expect_message(on("simt"), 3, {"precision", "GPU"});
}

TEST_F(BadInput, TensorsThatDoNotFit) {
  const std::string model = folder_.write("m.onnx", small_model());
  const auto run = [&](const std::string& input) {
    return run_weft({"run", model, "--no-cache", "--input", input});
  };
  const std::string fits = tensor("fits.npy", HostTensor(DType::kF32, {3, 4}));
  EXPECT_EQ(run("x=" + fits).exit_code, 0);
  expect_message(run("z=" + fits), 2, {"'z'", "x"});
  expect_message(run("x=" + tensor("wide.npy", HostTensor(DType::kF32, {3, 5}))), 2, {"x", "4"});
  expect_message(run("x=" + tensor("flat.npy", HostTensor(DType::kF32, {4}))), 2, {"x"});
  expect_message(run("x=" + tensor("long.npy", HostTensor(DType::kI64, {3, 4}))), 2, {"x", "i64"});
  expect_message(run("x=" + folder_.write("cut.npy", "\x93NUMPY")), 2, {"cut.npy"});
  expect_message(run("x=" + folder_.write("cut.npz", "PK\x05\x06")), 2, {"cut.npz"});
}

TEST_F(BadInput, TheSameOfPrintedGraphsAndArtefacts) {
  const std::string graph = folder_.write("m.graph", "(x: f32[3]) { y = exp x : f32[3] } -> (y)");
  const std::string artefact = folder_.path("m.weft");
  ASSERT_EQ(run_weft({"compile", graph, "--no-cache", "-o", artefact}).exit_code, 0);
  const std::string fits = tensor("fits.npy", HostTensor(DType::kF32, {3}));
  const std::string wide = tensor("wide.npy", HostTensor(DType::kF32, {5}));
  for (const std::string& model : {graph, artefact}) {
    EXPECT_EQ(run_weft({"run", model, "--no-cache", "--input", "x=" + fits}).exit_code, 0);
    expect_message(run_weft({"run", model, "--no-cache", "--input", "z=" + fits}), 2, {"'z'", "x"});
    expect_message(run_weft({"run", model, "--no-cache", "--input", "x=" + wide}), 2,
                   {"f32[5]", "f32[3]"});
  }
}

TEST_F(BadInput, ModelsThatBreakTheRules) {
  const auto model = [] { return TestModel().input("x", DType::kF32, {4}); };
  expect_message(run_model(model()
                               .node({"Add", {"x", "b"}, {"a"}, {}, "first"})
                               .node({"Relu", {"a"}, {"b"}, {}, "second"})
                               .output("b")
                               .model()),
                 2, {"first", "depends on its own result"});
  expect_message(run_model(model().node({"Relu", {"z"}, {"y"}, {}, "r"}).output("y").model()), 2,
                 {"'z'"});
  expect_message(
      run_model(
          model().node({"Relu", {"x"}, {"y"}}).node({"Neg", {"x"}, {"y"}}).output("y").model()),
      2, {"'y'"});
  expect_message(
      run_model(model()
                    .node({"Transpose", {"x"}, {"y"}, {onnx::ints_attr("perm", {7})}, "t"})
                    .output("y")
                    .model()),
      2, {"t"});
  expect_message(run_model(TestModel()
                               .input("x", DType::kF32, {-3})
                               .node({"Relu", {"x"}, {"y"}})
                               .output("y")
                               .model()),
                 2, {"x.0"});
  const CommandRun unknown = run_model(model()
                                           .node({"Frobnicate", {"x"}, {"a"}, {}, "f"})
                                           .node({"Grumble", {"a"}, {"b"}, {}, "g"})
                                           .output("b")
                                           .model());
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("Frobnicate 'f'"), HasSubstr("Grumble 'g'")));
}

/// More than there is, though every size is a number: refused before memory is asked for.
TEST_F(BadInput, SizesBeyondTheMachine) {
  const auto relu_of = [](const std::vector<onnx::Dim>& dims) {
    return TestModel().input("x", DType::kF32, dims).node({"Relu", {"x"}, {"y"}}).output("y");
  };
  const int64_t million = 1'000'000;
  expect_message(run_model(relu_of({million, million, million, million}).model()), 2, {"x"});
  expect_message(run_model(relu_of({100'000, million}).model()), 2, {"memory"});
  expect_message(run_model(relu_of({100'000, million}).model(), {"--target", "interp"}), 2,
                 {"memory"});
}

TEST_F(BadInput, ACacheThatCannotBeUsedIsAWarning) {
  const std::string model = folder_.write("m.onnx", small_model());
  const std::string file = folder_.write("file", "in the way");
  for (const std::string& cache : {file, file + "/below", std::string("/proc/none")}) {
    const CommandRun run = run_weft({"run", model, "--bind", "N=2", "--cache", cache});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("warning"), HasSubstr(cache)));
    EXPECT_THAT(run.out, HasSubstr("y f32[2,4]"));
  }
}

TEST_F(BadInput, ACacheThatOthersMayWriteToIsNotUsed) {
  const std::string model = folder_.write("m.onnx", small_model());
  const std::string cache = folder_.path("cache");
  std::filesystem::create_directory(cache);
  std::filesystem::permissions(cache, std::filesystem::perms::all);
  const CommandRun run = run_weft({"run", model, "--bind", "N=2", "--cache", cache});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("y f32[2,4]"));
  EXPECT_EQ(run.err, "weft: warning: cache folder " + cache +
                         ": not used, as it holds machine code and others may write to it (chmod "
                         "go-w makes it this user's)\n");
  EXPECT_THAT(folder_.files("cache"), IsEmpty());
}

TEST_F(BadInput, AFullDiskLeavesNoPartOfAResult) {
  const std::string model = folder_.write("m.onnx", small_model());
  CommandOptions full;
  full.max_file_bytes = 200;
  const std::vector<std::string> run = {"run",        model,          "--bind",           "N=100",
                                        "--no-cache", "--output-dir", folder_.path("out")};
  expect_message(run_weft(run, full), 2, {"cannot write", "out/y.npy"});
  EXPECT_THAT(folder_.files("out"), IsEmpty());
  const std::string artefact = folder_.path("m.weft");
  expect_message(run_weft({"compile", model, "--bind", "N=2", "--no-cache", "-o", artefact}, full),
                 2, {"cannot write", artefact});
  EXPECT_THAT(folder_.files(), ElementsAre("m.onnx", "out"));
  // The cache is a help, never a need.
  full.max_file_bytes = 64;
  const CommandRun cached =
      run_weft({"run", model, "--bind", "N=2", "--cache", folder_.path("cache")}, full);
  EXPECT_EQ(cached.exit_code, 0);
  EXPECT_THAT(cached.err, HasSubstr("warning"));
  EXPECT_THAT(folder_.files("cache"), IsEmpty());
}

TEST_F(BadInput, AnInterruptLeavesNothing) {
  const std::string body = TestModel()
                               .input("i", DType::kI64, {})
                               .input("on", DType::kBool, {})
                               .input("h", DType::kF32, {4})
                               .node({"Tanh", {"h"}, {"next"}})
                               .node({"Identity", {"on"}, {"still"}})
                               .output("still", DType::kBool)
                               .output("next")
                               .graph();
  const std::string endless =
      TestModel()
          .input("go", DType::kBool, {})
          .input("x", DType::kF32, {4})
          .node({"Loop", {"", "go", "x"}, {"y"}, {onnx::graph_attr("body", body)}})
          .output("y")
          .model();
  HostTensor yes(DType::kBool, {});
  yes.set_int(0, 1);
  CommandOptions soon;
  soon.interrupt_after_ms = 400;
  const std::vector<std::string> waiting = {"run",
                                            folder_.write("m.onnx", endless),
                                            "--no-cache",
                                            "--input",
                                            "go=" + tensor("go.npy", yes),
                                            "--output-dir",
                                            folder_.path("out")};
  for (const bool async : {false, true}) {
    std::vector<std::string> words = waiting;
    if (async) words.push_back("--async");
    const CommandRun run = run_weft(words, soon);
    EXPECT_EQ(run.exit_code, 130);
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(folder_.files(), ElementsAre("go.npy", "m.onnx"));
  }
}

TEST_F(BadInput, ResultsThatCannotBeWritten) {
  const std::string model = folder_.write("m.onnx", small_model());
  const std::string file = folder_.write("file", "in the way");
  expect_message(run_weft({"run", model, "--bind", "N=2", "--no-cache", "--output-dir", file}), 2,
                 {file});
  expect_message(
      run_weft({"compile", model, "--bind", "N=2", "--no-cache", "-o", folder_.path("no/m.weft")}),
      2, {"no/m.weft"});
  expect_message(
      run_weft({"run", model, "--bind", "N=2", "--no-cache", "--dump-dir", file + "/below"}), 2,
      {"file/below"});
  CommandOptions full;
  full.standard_output = "/dev/full";
  expect_message(run_weft({"run", model, "--bind", "N=2", "--no-cache"}, full), 2,
                 {"standard output"});
  expect_message(run_weft({"targets"}, full), 2, {"standard output"});
}

}  // namespace
}  // namespace weft::testing
