// Compiling for GPUs and running on one, with NVRTC and a driver that stand for NVIDIA's
// (tests/emulated_cuda): the kernels' CUDA text runs on the emulator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "simt/module.h"
#include "target/target.h"
#include "tests/paths.h"
#include "tests/tools/command.h"

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kMissing = 4;
const std::string kEmulated = std::string(WEFT_BINARY_DIR) + "/libweft_emulated_cuda.so";

std::string model(const std::string& name) {
  return std::string(WEFT_SOURCE_DIR) + "/tests/models/" + name + ".onnx";
}

/// --inputs and --expect of a model.
std::vector<std::string> with_values(std::vector<std::string> words, const std::string& name) {
  const std::string stem = std::string(WEFT_SOURCE_DIR) + "/tests/models/" + name;
  words.insert(words.end(), {"--inputs", stem + ".inputs.npz", "--expect", stem + ".expected.npz"});
  return words;
}

CommandOptions on(const std::string& device = "NVIDIA H100 80GB HBM3:90:132") {
  CommandOptions options;
  options.environment = {
      {"WEFT_NVRTC", kEmulated}, {"WEFT_CUDA_DRIVER", kEmulated}, {"WEFT_EMULATED_DEVICE", device}};
  return options;
}

bool available() {
  const auto probe = simt::Module::compile(
      "#include \"weft_cuda.h\"\nWF_KERNEL(k, 32, 1)(s32* x) { x[0] = 0; }\nWF_EXPORT(k)\n",
      "k.cu");
  return probe.ok() || probe.error().code != ErrorCode::kMissingDevice;
}

class Device : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
  TestFolder folder_;
};

TEST_F(Device, RunsModels) {
  // One graph of kernels; a recurrence; a condition and host operations in between.
  for (const char* name : {"softmax-max-div", "mlp", "gru", "if-folds", "conv-se"}) {
    const CommandRun run =
        run_weft(with_values({"run", model(name), "--target", "cuda", "--no-cache"}, name), on());
    EXPECT_EQ(run.exit_code, 0) << name << ": " << run.err;
    EXPECT_THAT(run.out, HasSubstr("as expected")) << name;
  }
}

TEST_F(Device, ArtefactsHoldCodeForSeveralArchitectures) {
  const std::string file = folder_.path("m.weft");
  const CommandRun compiled = run_weft(
      {"compile", model("mlp"), "--target", "h100-sxm,a100-40gb", "--no-cache", "-o", file}, on());
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  for (const char* device : {"NVIDIA H100 80GB HBM3:90:132", "NVIDIA A100-SXM4-40GB:80:108"}) {
    const CommandRun run = run_weft(with_values({"run", file}, "mlp"), on(device));
    EXPECT_EQ(run.exit_code, 0) << device << ": " << run.err;
    EXPECT_THAT(run.out, HasSubstr("as expected")) << device;
  }
  const CommandRun older = run_weft({"run", file}, on("Tesla V100:70:80"));
  EXPECT_EQ(older.exit_code, kMissing);
  EXPECT_THAT(older.err, AllOf(HasSubstr("h100-sxm (sm_90a)"), HasSubstr("a100-40gb (sm_80)"),
                               HasSubstr("Tesla V100 (sm_70) does not run")));
  const CommandRun explained = run_weft({"explain", file});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, AllOf(HasSubstr("code for sm_90"), HasSubstr("code for sm_80")));
  const CommandRun as_json = run_weft({"explain", file, "--json"});
  ASSERT_EQ(as_json.exit_code, 0) << as_json.err;
  const auto json = nlohmann::json::parse(as_json.out);
  EXPECT_EQ(json["device_code"]["arch"], "sm_90a");
  EXPECT_EQ(json["other_programs"].back()["device_code"]["arch"], "sm_80");
}

/// What spills is scheduled again with smaller tiles, and what that brought is said.
TEST_F(Device, SpillingKernelsAreScheduledAgain) {
  const std::string graph = folder_.path("product.graph"), file = folder_.path("m.weft");
  std::ofstream(graph) << "(a: f32[1024,512], b: f32[512,1024]) {\n  y = dot_general a, b, "
                          "lhs_contract={1}, rhs_contract={0} : f32[1024,1024]\n} -> (y)\n";
  const auto explained = [&](const char* registers) {
    CommandOptions options = on();
    options.environment["WEFT_EMULATED_REGISTERS"] = registers;
    const CommandRun run =
        run_weft({"compile", graph, "--target", "h100-sxm", "--no-cache", "-o", file}, options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run_weft({"explain", file}).out;
  };
  const std::string enough = explained("100000"), few = explained("900"), none = explained("20");
  EXPECT_THAT(enough, Not(HasSubstr("spilled;")));
  EXPECT_THAT(enough, HasSubstr("0 with spilled registers"));
  EXPECT_THAT(few, HasSubstr("bytes of registers spilled; scheduled again with smaller tiles: 0"));
  EXPECT_THAT(few, HasSubstr("0 with spilled registers"));
  EXPECT_THAT(none, HasSubstr("1 with spilled registers"));
}

TEST_F(Device, MissingLibrariesAreSaid) {
  CommandOptions options = on();
  options.environment["WEFT_CUDA_DRIVER"] = "/no/such/libcuda.so";
  const CommandRun no_driver = run_weft({"run", model("mlp"), "--target", "h100-sxm"}, options);
  EXPECT_EQ(no_driver.exit_code, kMissing);
  EXPECT_THAT(no_driver.err, HasSubstr("looked for /no/such/libcuda.so"));
  options = on();
  options.environment["WEFT_NVRTC"] = "/no/such/libnvrtc.so";
  const CommandRun no_compiler = run_weft(
      {"compile", model("mlp"), "--target", "h100-sxm", "-o", folder_.path("m.weft")}, options);
  EXPECT_EQ(no_compiler.exit_code, kMissing);
  EXPECT_THAT(no_compiler.err, HasSubstr("looked for /no/such/libnvrtc.so"));
  EXPECT_TRUE(folder_.files().empty());
  // Of no use to the CPU.
  EXPECT_EQ(run_weft({"run", model("mlp")}, options).exit_code, 0);
}

TEST_F(Device, CompiledModelsComeFromTheCache) {
  const std::vector<std::string> words = {"bench", model("mlp"), "--target",
                                          "cuda",  "--json",     "--runs",
                                          "1",     "--cache",    folder_.path("cache")};
  const CommandRun cold = run_weft(words, on());
  const CommandRun warm = run_weft(words, on());
  ASSERT_EQ(cold.exit_code, 0) << cold.err;
  ASSERT_EQ(warm.exit_code, 0) << warm.err;
  const auto first = nlohmann::json::parse(cold.out), second = nlohmann::json::parse(warm.out);
  EXPECT_FALSE(first["compile_cached"].get<bool>());
  EXPECT_TRUE(second["compile_cached"].get<bool>());
  EXPECT_GT(first["device_median_us"].get<double>(), 0);
}

TEST_F(Device, TimesBesideCopies) {
  const std::vector<std::string> words = {
      "bench", model("softmax-max-div"), "--no-cache", "--json", "--runs",
      "1",     "--device-times",         "--target"};
  auto cuda = words, cpu = words;
  cuda.emplace_back("cuda");
  cpu.emplace_back("cpu");
  const CommandRun run = run_weft(cuda, on());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["device"], "NVIDIA H100 80GB HBM3");
  EXPECT_GT(json["device_warm_us"].get<double>(), 0);
  EXPECT_EQ(json["copied_bytes"], 19 * 37 * 4);
  EXPECT_EQ(run_weft(cpu).exit_code, 2);
}

/// The float32 elements of a .npy file.
std::vector<float> floats_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10) return {};
  const size_t header = 10 + static_cast<unsigned char>(bytes[8]) +
                        256 * static_cast<size_t>(static_cast<unsigned char>(bytes[9]));
  std::vector<float> values((bytes.size() - header) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(float));
  return values;
}

TEST_F(Device, LibrariesThatTheTargetNamesAreCalled) {
  // Two layers that a library does, and a function behind them that it does not.
  const std::string graph = folder_.write("m.graph", R"(
(x: f32[300,1024], w: f32[1024,256], b: f32[256], v: f32[256,320]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[300,256]
  c = broadcast b, dims={1} : f32[300,256]
  s = add p, c : f32[300,256]
  z = constant 0 : f32[]
  o = broadcast z, dims={} : f32[300,256]
  h = max s, o : f32[300,256]
  q = dot_general h, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[300,320]
  y = tanh q : f32[300,320]
} -> (y))");
  std::string description = print(*find_target("h100-sxm"));
  const std::string target = folder_.write("named.target", description + "libraries cublaslt\n");
  CommandOptions options = on();
  options.environment["WEFT_CUBLASLT"] = kEmulated;
  const auto run = [&](const std::string& on_target, const std::string& folder) {
    return run_weft({"run", graph, "--target", on_target, "--no-cache", "--seed", "3",
                     "--output-dir", folder_.path(folder)},
                    options);
  };
  const CommandRun explained = run_weft({"explain", graph, "--target", target});
  EXPECT_THAT(explained.out, HasSubstr("and 2 library calls")) << explained.err;
  const CommandRun called = run(target, "called");
  ASSERT_EQ(called.exit_code, 0) << called.err;
  ASSERT_EQ(run("interp", "interp").exit_code, 0);
  const std::vector<float> y = floats_in(folder_.path("called/y.npy")),
                           expected = floats_in(folder_.path("interp/y.npy"));
  ASSERT_EQ(y.size(), 300U * 320U);
  ASSERT_EQ(expected.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-3) << i;

  options.environment["WEFT_CUBLASLT"] = "/no/such/libcublasLt.so";
  const CommandRun own = run(target, "own");
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_THAT(own.err, AllOf(HasSubstr("looked for /no/such/libcublasLt.so"),
                             HasSubstr("weft's own kernel serves")));
  const std::vector<float> by_own = floats_in(folder_.path("own/y.npy"));
  ASSERT_EQ(by_own.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(by_own[i], expected[i], 1e-3) << i;
  const CommandRun broken =
      run(folder_.write("broken.target", "name x\nlibraries mkl\n"), "broken");
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("broken.target"), HasSubstr("2")));
}

/// Channels lie first where the model's inputs and outputs are all that there is.
const char* const kConvolution = R"(
(x: f32[2,16,21,20], w: f32[96,8,3,3], b: f32[96], r: f32[2,96,11,18]) {
  p = convolution x, w, strides={2,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,2}, groups=2 : f32[2,96,11,18]
  l = broadcast b, dims={1} : f32[2,96,11,18]
  s = add p, l : f32[2,96,11,18]
  t = add r, s : f32[2,96,11,18]
  z = constant 0 : f32[]
  o = broadcast z, dims={} : f32[2,96,11,18]
  y = max t, o : f32[2,96,11,18]
} -> (y))";

class DeviceConvolutions : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    // A device so slow at arithmetic that small convolutions are bound by it.
    std::string description = print(*find_target("h100-sxm"));
    const size_t peak = description.find("peak_gflops");
    description.replace(peak, description.find('\n', peak) - peak, "peak_gflops 10");
    target_ = folder_.write("named.target", description + "libraries cudnn\n");
    options_ = on();
    options_.environment["WEFT_CUDNN"] = kEmulated;
  }
  std::string target_;
  CommandOptions options_;
};

TEST_F(DeviceConvolutions, AreCudnnsWhereTheTargetNamesIt) {
  const std::string graph = folder_.write("m.graph", kConvolution);
  CommandRun done;
  const auto run = [&](const std::string& target) {
    done = run_weft({"run", graph, "--target", target, "--cache", folder_.path("cache"), "--seed",
                     "3", "--output-dir", folder_.path("out")},
                    options_);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return floats_in(folder_.path("out/y.npy"));
  };
  const CommandRun explained = run_weft({"explain", graph, "--target", target_});
  EXPECT_THAT(explained.out,
              AllOf(HasSubstr("0 kernels (0 compute, 0 memory) and 1 library calls"),
                    HasSubstr("call: cudnn f32 first 2 images 16 -> 96 groups 2 input 21x20")))
      << explained.err;
  const std::vector<float> expected = run("interp");
  ASSERT_EQ(expected.size(), 2U * 96 * 11 * 18);
  const auto expect_right = [&](const std::vector<float>& y) {
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4) << i;
  };
  expect_right(run(target_));
  EXPECT_EQ(done.err, "");
  const auto without = [&](const char* variable, const char* value, const char* said) {
    options_.environment[variable] = value;
    expect_right(run(target_));
    EXPECT_THAT(done.err, AllOf(HasSubstr(said), HasSubstr("weft's own kernel serves")));
    options_.environment.erase(variable);
  };
  without("WEFT_EMULATED_CUDNN", "8907", "the library found is 8.9.7");
  without("WEFT_EMULATED_CUDNN_FAILS", "3004", "CUDNN_STATUS_NOT_SUPPORTED");
}

/// Convolutions with channels last, whose weights are packed so, between kernels for what the
/// library does not do.
TEST_F(DeviceConvolutions, AreWeftsOwnWithoutTheLibrary) {
  const std::string file = folder_.path("m.weft");
  const auto compile = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"compile", model("resnet"),       "--target", target_,
                                      "--cache", folder_.path("cache"), "-o",       file};
    words.insert(words.end(), more.begin(), more.end());
    const CommandRun done = run_weft(words, options_);
    EXPECT_EQ(done.exit_code, 0) << done.err;
  };
  const auto run = [&] { return run_weft(with_values({"run", file}, "resnet"), options_); };
  compile({});
  EXPECT_THAT(run_weft({"explain", file}).out, HasSubstr("library calls"));
  const CommandRun called = run();
  EXPECT_EQ(called.exit_code, 0) << called.err;
  EXPECT_EQ(called.err, "");
  options_.environment["WEFT_CUDNN"] = "libno-such.so";
  const CommandRun own = run();
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr("as expected"));
  EXPECT_THAT(own.err,
              AllOf(HasSubstr("looked for libno-such.so"), HasSubstr("weft's own kernel serves")));
  compile({"--no-fallback"});
  const CommandRun refused = run();
  EXPECT_EQ(refused.exit_code, kMissing);
  EXPECT_THAT(refused.err, HasSubstr("looked for libno-such.so"));
}

/// Library calls are captured with the kernels: a run is one graph.
TEST_F(DeviceConvolutions, AreOneGraphWithTheKernelsAroundThem) {
  const std::string graph = folder_.write("m.graph", R"(
(x: f32[1,8,12,12], w: f32[64,8,3,3]) {
  p = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,64,12,12]
  s = reduce p, axes={3}, combiner=sum : f32[1,64,12]
} -> (p, s))");
  const std::string log = folder_.path("graphs");
  options_.environment["WEFT_EMULATED_GRAPHS"] = log;
  const CommandRun explained =
      run_weft({"explain", graph, "--target", target_, "--compositions", "leaf"});
  EXPECT_THAT(explained.out, HasSubstr("1 library calls")) << explained.err;
  const CommandRun run = run_weft(
      {"run", graph, "--target", target_, "--compositions", "leaf", "--no-cache"}, options_);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::ifstream written(log);
  std::vector<int> operations{std::istream_iterator<int>(written), {}};
  EXPECT_EQ(operations, std::vector<int>{2});
}

/// A depth that blocks share ends in a barrier of the grid.
TEST_F(Device, BarriersOfTheGridAreForDevicesThatHoldAllBlocks) {
  const std::string graph = folder_.write("m.graph", R"(
(x: f32[64,4096], w: f32[4096,128]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[64,128]
} -> (y))");
  const std::string file = folder_.path("m.weft");
  const auto compile = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"compile", graph, "--target", "a100-40gb",
                                      "-o",      file,  "--cache",  folder_.path("cache")};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run_weft(words, on()).exit_code, 0);
  };
  const CommandOptions whole = on("A100:80:108"), part = on("a part of an A100:80:1");
  compile({});
  EXPECT_THAT(run_weft({"explain", file}).out, HasSubstr("grid barrier"));
  EXPECT_EQ(run_weft({"run", file}, whole).exit_code, 0);
  const CommandRun without = run_weft({"run", file}, part);
  EXPECT_EQ(without.exit_code, 0) << without.err;
  compile({"--no-fallback"});
  EXPECT_EQ(run_weft({"run", file}, whole).exit_code, 0);
  const CommandRun refused = run_weft({"run", file}, part);
  EXPECT_EQ(refused.exit_code, kMissing);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("has a barrier of its grid"), HasSubstr("a part of an A100 holds")));
}

TEST_F(Device, OlderDriversAreSaid) {
  CommandOptions options = on();
  options.environment["WEFT_EMULATED_DRIVER"] = "11080";
  const CommandRun run = run_weft({"run", model("mlp"), "--target", "h100-sxm"}, options);
  EXPECT_EQ(run.exit_code, kMissing);
  EXPECT_THAT(run.err, HasSubstr("serves CUDA 11.8; CUDA 12.0 or later is needed: update the"));
}

TEST_F(Device, IsMeasured) {
  // Two multiprocessors: the emulator runs every block.
  const std::string file = folder_.path("measured.target");
  const CommandRun run = run_weft(
      {"calibrate", "--target", "cuda", "--name", "mine", "-o", file, "--most-bytes", "262144"},
      on("NVIDIA H100 80GB HBM3:90:2"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto measured = find_target(file);
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  EXPECT_EQ(measured->name, "mine");
  EXPECT_EQ(measured->sm_count, 2);
  EXPECT_EQ(measured->peak_f16_gflops, find_target("h100-sxm")->peak_f16_gflops);
  ASSERT_EQ(measured->bandwidth.size(), 2U);
  EXPECT_EQ(measured->bandwidth.back().bytes, 262144);
  // The emulated device takes the same for any work, so that nothing is left of a difference.
  for (const double us : {measured->barrier_us, measured->cluster_barrier_us}) EXPECT_EQ(us, 0.001);
  EXPECT_EQ(measured->cluster_blocks, find_target("h100-sxm")->cluster_blocks);
}

// What scripts/gpu carries to a machine with a GPU, in small.
TEST_F(Device, TheKitChecksModelsAndWritesItsResults) {
  namespace fs = std::filesystem;
  const fs::path kit = folder_.path("kit"), source = WEFT_SOURCE_DIR;
  fs::create_directories(kit / "bin");
  fs::create_directories(kit / "models");
  fs::create_symlink(std::string(WEFT_BINARY_DIR) + "/weft", kit / "bin/weft");
  fs::copy(source / "bench/gpu_run.py", kit / "run");
  for (const char* suffix : {".onnx", ".inputs.npz", ".expected.npz"}) {
    const std::string name = std::string("mlp") + suffix;
    fs::copy(source / "tests/models" / name, kit / "models" / name);
  }
  // A case that fails takes no other along.
  std::ofstream(kit / "models/absent.onnx") << "no model";
  const std::string results = folder_.path("results.json");
  const std::string command =
      "python3 " + (kit / "run").string() + " --quick --output " + results + " > /dev/null 2>&1";
  const std::string emulated = "WEFT_NVRTC=" + kEmulated + " WEFT_CUDA_DRIVER=" + kEmulated + " ";
  ASSERT_EQ(WEXITSTATUS(std::system((emulated + command).c_str())), 1);
  std::ifstream file(results);
  const auto json = nlohmann::json::parse(file);
  EXPECT_THAT(json["device"].get<std::string>(), HasSubstr("NVIDIA H100 80GB HBM3 (sm_90"));
  EXPECT_EQ(json["models"]["mlp"], "ok");
  EXPECT_THAT(json["models"]["absent"].get<std::string>(), HasSubstr("absent.inputs.npz"));
  const int absent = std::system(("WEFT_CUDA_DRIVER=/no/such/driver " + command).c_str());
  EXPECT_EQ(WEXITSTATUS(absent), kMissing);
}

TEST_F(Device, EveryStepIsTimed) {
  const CommandRun run = run_weft({"bench", model("gru"), "--target", "cuda", "--no-cache",
                                   "--per-kernel", "--compositions", "leaf"},
                                  on());
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("scan"));
}

TEST_F(Device, StepsNameTheirCode) {
  const CommandRun run = run_weft(
      {"bench", model("mlp"), "--target", "cuda", "--no-cache", "--per-kernel", "--json"}, on());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto steps = nlohmann::json::parse(run.out);
  ASSERT_FALSE(steps.empty());
  for (const auto& step : steps) {
    EXPECT_THAT(step["entry"].get<std::string>(), StartsWith("weft_"));
    EXPECT_GT(step["predicted_ms"].get<double>(), 0);
  }
}

}  // namespace
}  // namespace weft::testing
