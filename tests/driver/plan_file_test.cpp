// A plan printed and read back builds the same code, byte for byte, and chooses nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "driver/compiler.h"
#include "driver/explain/candidates_text.h"
#include "driver/explain/explain_json.h"
#include "driver/plan_file.h"
#include "driver/print_level.h"
#include "tests/paths.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

struct PlanCase {
  const char* model;  ///< of tests/models
  const char* target;
};

std::string path_of(const std::string& model) {
  return WEFT_SOURCE_DIR "/tests/models/" + model + ".onnx";
}

CompileOptions options_for(const PlanCase& of) {
  CompileOptions options;
  options.device = *find_target(of.target);
  options.verify = true;
  return options;
}

class PlanFiles : public testing::TestWithParam<PlanCase> {};

TEST_P(PlanFiles, BuildTheSameCode) {
  CompileOptions options = options_for(GetParam());
  const auto first = compile_model(path_of(GetParam().model), options);
  ASSERT_TRUE(first.ok()) << first.error().message;
  options.plan_text = *print_level(**first, "plan");
  options.plan_source = "p.plan";
  const auto second = compile_model(path_of(GetParam().model), options);
  ASSERT_TRUE(second.ok()) << second.error().message;
  for (const char* level : {"plan", "tile-program", "kernel", "code"}) {
    EXPECT_EQ(*print_level(**second, level), *print_level(**first, level)) << level;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PlanFiles,
    testing::Values(PlanCase{"bert", "x86-64-v3"}, PlanCase{"resnet", "x86-64-v3"},
                    PlanCase{"gru", "x86-64-v3"}, PlanCase{"swin-block", "x86-64-v3"},
                    PlanCase{"bert", "a100-40gb"}, PlanCase{"mmoe", "h100-sxm"},
                    PlanCase{"conv-se", "a100-40gb"}, PlanCase{"gru", "h100-sxm"},
                    PlanCase{"groupnorm-instance", "h100-sxm"}),
    [](const auto& instance) {
      std::string name = std::string(instance.param.model) + "_" + instance.param.target;
      std::ranges::replace(name, '-', '_');
      return name;
    });

/// Every second row of an exponential, twice, and the ones between.
constexpr const char* kWindows = R"((x: f32[9,64]) {
  e = exp x : f32[9,64]
  a = slice e, start={0,0}, step={2,1} : f32[5,64]
  b = slice e, start={1,0}, step={2,1} : f32[4,64]
  c = slice e, start={2,0}, step={2,1} : f32[4,64]
  y = add b, c : f32[4,64]
  z = neg a : f32[5,64]
} -> (y, z))";

std::unique_ptr<Compilation> planned(const char* graph, CompileOptions options) {
  options.stop_after = "plan";
  auto c = compile_graph(std::move(*parse_graph(graph)), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return c.ok() ? std::move(*c) : nullptr;
}

/// A text holds what its expressions depend on, where that was asked for.
TEST(PlanFile, SaysHowOftenExpressionsAreComputed) {
  CompileOptions options = options_for({"", "a100-40gb"});
  const auto as_planned = planned(kWindows, options);
  ASSERT_NE(as_planned, nullptr);
  EXPECT_EQ(as_planned->tensors.exprs.size(), 2U);
  EXPECT_THAT(*print_level(*as_planned, "plan"), testing::StartsWith("plan auto {"));
  options.planner_parameters = "recompute=1";
  const auto once = planned(kWindows, options);
  ASSERT_NE(once, nullptr);
  EXPECT_EQ(once->tensors.exprs.size(), 3U);
  options.planner_parameters.clear();
  options.plan_text = *print_level(*once, "plan");
  EXPECT_THAT(options.plan_text, testing::StartsWith("plan auto recompute 1 {"));
  const auto again = planned(kWindows, options);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(*print_level(*again, "plan"), options.plan_text);
}

/// The groups of a plan for a GPU stand on a CPU; how they become kernels is chosen there.
TEST(PlanFile, IsBuiltAnewForAnotherKindOfTarget) {
  const PlanCase gpu{"bert", "a100-40gb"}, cpu{"bert", "x86-64-v3"};
  const auto first = compile_model(path_of("bert"), options_for(gpu));
  ASSERT_TRUE(first.ok());
  CompileOptions options = options_for(cpu);
  options.plan_text = *print_level(**first, "plan");
  const auto second = compile_model(path_of("bert"), options);
  // What a CPU's templates do not hold is refused with the reason.
  if (!second.ok()) {
    EXPECT_THAT(second.error().message, HasSubstr("no template holds this kernel"));
    return;
  }
  // Each member of a launch is a kernel of its own there.
  size_t groups = 0;
  for (const PlannedKernel& kernel : (*first)->plan.kernels)
    groups += std::max<size_t>(kernel.members.size(), 1);
  EXPECT_EQ((*second)->plan.kernels.size(), groups);
}

std::string refused(const std::string& plan_text) {
  CompileOptions options = options_for({"softmax-max-div", "x86-64-v3"});
  options.plan_text = plan_text;
  options.plan_source = "my.plan";
  options.stop_after = "plan";
  const auto c = compile_model(path_of("softmax-max-div"), options);
  if (c.ok()) return "";
  EXPECT_EQ(c.error().code, ErrorCode::kInvalidInput);
  return c.error().message;
}

TEST(PlanFile, SaysWhatIsWrongAndWhere) {
  CompileOptions options = options_for({"softmax-max-div", "x86-64-v3"});
  options.stop_after = "plan";
  const auto c = compile_model(path_of("softmax-max-div"), options);
  ASSERT_TRUE(c.ok());
  const std::string plan = *print_level(**c, "plan");
  ASSERT_EQ(refused(plan), "");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = plan;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in\n" << plan;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return refused(text);
  };
  EXPECT_THAT(with("plan auto", "pan auto"), HasSubstr("my.plan:1:1: `plan` is expected"));
  EXPECT_THAT(with("plan auto", "plan magic"), HasSubstr("unknown planner 'magic'"));
  EXPECT_THAT(with("vec_axis 1", "vec_axis 7"), HasSubstr("is not one for its axes"));
  EXPECT_THAT(with("inner [1]", "inner [1, 1]"), HasSubstr("is not one for its axes"));
  EXPECT_THAT(with("lanes ", "lanes -"), HasSubstr("is not one for its axes"));
  EXPECT_THAT(with("leaf(sweep", "leaf(sweet"), HasSubstr("expected what a template chose"));
}

std::unique_ptr<Compilation> planned_for_a_gpu(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok());
  if (!graph.ok()) return nullptr;
  CompileOptions options;
  options.device = *find_target("h100-sxm");
  options.stop_after = "plan";
  auto c = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(c.ok());
  return c.ok() ? std::move(*c) : nullptr;
}

TEST(Candidates, ListWhatWasConsideredAndWhyItLost) {
  const auto c = planned_for_a_gpu(R"((x: f32[64,4096]) {
  m = reduce x, axes={1}, combiner=max : f32[64]
  b = broadcast m, dims={0} : f32[64,4096]
  y = sub x, b : f32[64,4096]
} -> (y))");
  ASSERT_NE(c, nullptr);
  const auto text = candidates_text(explained(*c), "1");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("k0_y\n"));
  EXPECT_THAT(*text, HasSubstr("tiles\n"));
  EXPECT_THAT(*text, HasSubstr("y runs along an axis that m does not have"));
  EXPECT_THAT(*text, testing::ContainsRegex("\\* +[0-9.]+ us  rows vec_axis"));
  EXPECT_THAT(*text, testing::ContainsRegex("predicted [0-9.]+ us, [0-9.]+ us more"));
  EXPECT_EQ(*text, *candidates_text(explained(*c), "k0_y"));
  EXPECT_FALSE(candidates_text(explained(*c), "2").ok());
}

/// Of the first layouts the programs are told of, and the one that takes least is taken.
TEST(Candidates, RowsOfAGpuAreWeighedByTheirPrograms) {
  const auto c = planned_for_a_gpu(R"((x: f32[512,768]) {
  e = exp x : f32[512,768]
  s = reduce e, axes={1}, combiner=sum : f32[512]
  b = broadcast s, dims={0} : f32[512,768]
  y = div e, b : f32[512,768]
} -> (y))");
  ASSERT_NE(c, nullptr);
  const auto text = candidates_text(explained(*c), "1");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_THAT(*text, testing::ContainsRegex("its program is predicted to take [0-9.]+ us, "
                                            "-?[0-9.]+ us more"));
}

}  // namespace
}  // namespace weft
