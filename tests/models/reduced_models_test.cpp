#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "driver/check/round_trip.h"
#include "driver/compiler.h"
#include "driver/models/emulated_kernels.h"
#include "driver/models/model_inputs.h"
#include "driver/print_level.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "io/npz.h"
#include "io/onnx_case.h"
#include "tests/paths.h"

namespace weft {
namespace {

const std::string kFolder = std::string(WEFT_SOURCE_DIR) + "/tests/models/";

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Compilation> compile(const std::string& name, const std::string& planner,
                                     int vector_bytes, std::optional<Target> device = {}) {
  auto given = load_npz(kFolder + name + ".inputs.npz");
  EXPECT_TRUE(given.ok()) << given.error().message;
  CompileOptions options;
  options.planner = planner;
  options.threads = 2;
  options.max_vector_bytes = vector_bytes;
  options.verify = true;
  options.device = std::move(device);
  options.import.known_inputs = *given;
  auto c = compile_model(kFolder + name + ".onnx", options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return c.ok() ? std::move(*c) : nullptr;
}

/// Half precision keeps about three digits.
Tolerance tolerance_of(const std::string& name) {
  return name == "mlp-f16" ? Tolerance{5e-3, 5e-3} : Tolerance{1e-3, 1e-4};
}

void expect_outputs(const Compilation& c, const std::string& name, Session* session) {
  auto given = load_npz(kFolder + name + ".inputs.npz");
  auto expected = load_npz(kFolder + name + ".expected.npz");
  ASSERT_TRUE(given.ok() && expected.ok());
  auto inputs = program_inputs(c.imported.inputs, graph_inputs(c.graph), {*given, 0});
  ASSERT_TRUE(inputs.ok()) << inputs.error().message;
  for (int again = 0; again < 2; ++again) {
    auto outputs = session->run(*inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const std::string& output = c.graph.output_names[i];
      ASSERT_TRUE(expected->count(output)) << output;
      const Status same = compare_tensors((*outputs)[i], expected->at(output), tolerance_of(name));
      EXPECT_TRUE(same.ok()) << name << " " << output << ": " << same.error().message;
    }
  }
}

void expect_outputs(const Compilation& c, const std::string& name, int threads) {
  auto session = Session::create(c.program, threads);
  ASSERT_TRUE(session.ok()) << session.error().message;
  expect_outputs(c, name, session->get());
}

class ReducedModel : public testing::TestWithParam<std::string> {};

TEST_P(ReducedModel, AgreesWithEveryPlanner) {
  int64_t unfused_arena = 0;
  for (const char* planner : {"none", "xla", "span", "dp", "ilp", "chain", "best", "auto"}) {
    const auto c = compile(GetParam(), planner, 0);
    ASSERT_NE(c, nullptr) << planner;
    expect_outputs(*c, GetParam(), 2);
    if (planner == std::string("none")) unfused_arena = c->program.arena_bytes;
    if (planner == std::string("chain")) continue;  // weighs time alone
    const bool says_so = c->planned_arena_bytes > c->unfused_arena_bytes;
    EXPECT_TRUE(c->program.arena_bytes <= unfused_arena || says_so) << planner;
    if (planner == std::string("auto")) EXPECT_LE(c->program.arena_bytes, unfused_arena);
  }
}

TEST_P(ReducedModel, AgreesWithNarrowVectorsAndOneThread) {
  for (const int bytes : {16, 32}) {
    const auto c = compile(GetParam(), "auto", bytes);
    ASSERT_NE(c, nullptr) << bytes;
    expect_outputs(*c, GetParam(), 1);
  }
}

/// Planned for a GPU, as CUDA text on the emulator, whose reports are errors.
TEST_P(ReducedModel, AgreesOnTheEmulator) {
  const auto c = compile(GetParam(), "auto", 0, *find_target("h100-sxm"));
  ASSERT_NE(c, nullptr);
  auto launcher = emulate_kernels(functions_of(*c), "");
  if (!launcher.ok() && launcher.error().code == ErrorCode::kMissingDevice) {
    GTEST_SKIP() << launcher.error().message;
  }
  ASSERT_TRUE(launcher.ok()) << launcher.error().message;
  auto session = Session::create(c->program, *launcher);
  ASSERT_TRUE(session.ok()) << session.error().message;
  expect_outputs(*c, GetParam(), session->get());
}

TEST_P(ReducedModel, FusionNeverAddsKernels) {
  const auto none = compile(GetParam(), "none", 0), automatic = compile(GetParam(), "auto", 0);
  ASSERT_TRUE(none && automatic);
  EXPECT_LE(automatic->plan.kernels.size(), none->plan.kernels.size());
}

/// print(parse(print(x))) is print(x) at every level, and constants too large to print come back by
/// their hash.
TEST_P(ReducedModel, EveryLevelReadsBackWhatItPrints) {
  for (const char* planner : {"none", "auto"}) {
    const auto c = compile(GetParam(), planner, 0);
    ASSERT_NE(c, nullptr);
    const Status same = check_round_trips(*c);
    EXPECT_TRUE(same.ok()) << planner << ": " << same.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReducedModel, testing::ValuesIn(model_names()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// From primitives alone, whatever the order of factors and operands: one kernel.
TEST(OneKernel, HoldsNormalisationsAndActivations) {
  for (const std::string& name : model_names()) {
    const bool one = name.starts_with("softmax-") || name.starts_with("layernorm-") ||
                     name.starts_with("rmsnorm-") || name.starts_with("gelu-") ||
                     name.starts_with("groupnorm-") || name == "elementwise";
    if (!one) continue;
    const auto c = compile(name, "auto", 0);
    ASSERT_NE(c, nullptr);
    EXPECT_EQ(c->plan.kernels.size(), 1U) << name << "\n" << print(c->plan, c->tensors);
  }
}

TEST(KernelNames, AreUniqueAcrossRegions) {
  for (const char* name : {"lstm-stack", "gru", "bert"}) {
    const auto c = compile(name, "auto", 0);
    ASSERT_NE(c, nullptr);
    std::set<std::string> names;
    for (const KernelFunction* kernel : functions_of(*c)) names.insert(kernel->name);
    EXPECT_EQ(names.size(), c->kernels.size()) << name;
  }
}

TEST(Determinism, SamePlanAndSameCode) {
  const auto a = compile("bert", "auto", 0), b = compile("bert", "auto", 0);
  ASSERT_TRUE(a && b);
  for (const char* level : {"graph", "tensor-program", "plan", "tile-program", "kernel"}) {
    EXPECT_EQ(*print_level(*a, level), *print_level(*b, level)) << level;
  }
  ASSERT_EQ(a->program.kernels.size(), b->program.kernels.size());
  for (size_t k = 0; k < a->program.kernels.size(); ++k) {
    EXPECT_EQ(a->program.kernels[k].bytes, b->program.kernels[k].bytes);
  }
}

}  // namespace
}  // namespace weft
