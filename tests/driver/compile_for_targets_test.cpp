#include "driver/models/compile_for_targets.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "codegen/cpu/code_features.h"
#include "driver/session.h"
#include "runtime/artefact.h"
#include "tests/import/onnx/model_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// From one end of a signed byte to the other.
std::vector<int> weights() {
  std::vector<int> w;
  for (int i = 0; i < 64 * 32; ++i) w.push_back(i * 91 % 256 - 128);
  return w;
}

/// y = x · w, whose factors are bytes or floats.
class CompileForTargets : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weft_targets_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// A model file of a product with weights in bytes.
  std::string byte_product() const {
    const std::string path = folder_ / "m.graph";
    std::ofstream(path) << fmt::format(R"((x: u8[3,64]) {{
  w = constant {{{}}} : i8[64,32]
  a = convert x : f32[3,64]
  b = convert w : f32[64,32]
  y = dot_general a, b, lhs_contract={{1}}, rhs_contract={{0}} : f32[3,32]
}} -> (y)
)",
                                       fmt::join(weights(), ", "));
    return path;
  }
  std::string float_product() const {
    const std::string path = folder_ / "f.graph";
    std::ofstream(path)
        << "(x: f32[3,64], w: f32[64,32]) {\n"
           "  y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[3,32]\n"
           "} -> (y)\n";
    return path;
  }

  static std::vector<CompiledModel> compiled(const std::string& model, bool fallback = true,
                                             const std::string& target = "cpu") {
    ModelRequest request;
    request.model = model;
    request.target = target;
    request.options.threads = 1;
    auto models = compile_for_targets(request, fallback);
    EXPECT_TRUE(models.ok()) << models.error().message;
    return models.ok() ? std::move(*models) : std::vector<CompiledModel>();
  }

  fs::path folder_;
};

bool can_multiply_bytes(const Program& program) {
  return std::ranges::any_of(program.required_features, [](const std::string& feature) {
    return feature == "avx512vnni" || feature == "avxvnni";
  });
}

/// The sums of products of 0 to 255 and -128 to 127, in integers.
std::vector<float> expected(const HostTensor& x) {
  const std::vector<int> w = weights();
  std::vector<float> y(size_t{3} * 32, 0);
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t k = 0; k < 64; ++k)
      y[i] += static_cast<float>(x.data<uint8_t>()[i / 32 * 64 + k] * w[k * 32 + i % 32]);
  }
  return y;
}

TEST_F(CompileForTargets, ProductsOfBytesComeForProcessorsThatMultiplyThemAndForTheLevel) {
  const std::vector<CompiledModel> models = compiled(byte_product());
  ASSERT_EQ(models.size(), 2u);
  EXPECT_TRUE(can_multiply_bytes(models[0].program));
  EXPECT_FALSE(can_multiply_bytes(models[1].program));
  EXPECT_EQ(models[1].program.required_features, code_features(portable(host_cpu_target(1))));

  HostTensor x(DType::kU8, {3, 64});
  for (size_t i = 0; i < 192; ++i) x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i * 67);
  for (const CompiledModel& model : models) {
    if (!check_features(model.program, host_cpu_target(1).features).ok()) continue;
    auto executable = Executable::create(model.program);
    ASSERT_TRUE(executable.ok()) << executable.error().message;
    auto session = Session::create(std::move(*executable), 1);
    ASSERT_TRUE(session.ok()) << session.error().message;
    const auto outputs = (*session)->run({x});
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    const auto* y = (*outputs)[0].data<float>();
    EXPECT_EQ(std::vector<float>(y, y + size_t{3} * 32), expected(x));
  }
}

TEST_F(CompileForTargets, TheSecondFormIsLeftOutWhereItIsNotAskedForAndWhereItWouldBeTheSame) {
  const std::vector<CompiledModel> alone = compiled(byte_product(), /*fallback=*/false);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(can_multiply_bytes(alone[0].program));
  const std::vector<CompiledModel> floats = compiled(float_product());
  ASSERT_EQ(floats.size(), 1u);
  EXPECT_EQ(floats[0].program.required_features, code_features(portable(host_cpu_target(1))));
}

TEST_F(CompileForTargets, SeveralLevelsShareAnArtefact) {
  const std::vector<CompiledModel> models =
      compiled(float_product(), /*fallback=*/true, "x86-64-v3,x86-64-v4");
  ASSERT_EQ(models.size(), 2u);
  const Program* programs[] = {&models[0].program, &models[1].program};
  const std::string path = folder_ / "m.weft";
  ASSERT_TRUE(save_artefact(path, programs).ok());
  for (const char* level : {"x86-64-v3", "x86-64-v4"}) {
    const std::vector<std::string> features = find_target(level)->features;
    const auto loaded = load_artefact(path, features);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    ASSERT_EQ(loaded->size(), 1u);
    EXPECT_EQ(loaded->front().target, level);
  }
}

/// y = exp(x · w), x: f32[N,8].
std::string open_model() {
  HostTensor w(DType::kF32, {8, 3});
  for (int64_t i = 0; i < w.size(); ++i) w.set_double(i, 0.1 * static_cast<double>(i % 7) - 0.2);
  return onnx::TestModel()
      .input("x", DType::kF32, {"N", 8})
      .initializer("w", std::move(w))
      .node({"MatMul", {"x", "w"}, {"p"}})
      .node({"Exp", {"p"}, {"y"}})
      .output("y")
      .model();
}

HostTensor rows_of(int64_t rows) {
  HostTensor x(DType::kF32, {rows, 8});
  for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, 0.3 * static_cast<double>(i * 5 % 11) - 1);
  return x;
}

TEST_F(CompileForTargets, VersionsByShapeShareAnArtefactAndARunTakesTheOneThatFits) {
  ModelRequest request;
  request.model = folder_ / "open.onnx";
  request.options.threads = 1;
  std::ofstream(request.model, std::ios::binary) << open_model();
  const auto models = compile_versions(request, {{{"N", 1}}, {{"N", 5}}}, /*fallback=*/true);
  ASSERT_TRUE(models.ok()) << models.error().message;
  ASSERT_EQ(models->size(), 2u);
  const Program* programs[] = {&(*models)[0].program, &(*models)[1].program};
  const std::string path = folder_ / "m.weft";
  ASSERT_TRUE(save_artefact(path, programs).ok());

  ModelRequest run;
  run.model = path;
  run.options.threads = 1;
  for (const int64_t rows : {5, 1}) {
    run.inputs.values["x"] = rows_of(rows);
    auto ready = prepare_model(run);
    ASSERT_TRUE(ready.ok()) << ready.error().message;
    EXPECT_EQ(ready->session->program().inputs[0].shape, (Shape{rows, 8}));
    const auto outputs = run_model(*ready);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    ModelRequest interpreted = request;
    interpreted.target = "interp";
    interpreted.inputs = run.inputs;
    interpreted.options.import.known_inputs = run.inputs.values;
    auto oracle = prepare_model(interpreted);
    ASSERT_TRUE(oracle.ok()) << oracle.error().message;
    const auto expected = run_model(*oracle);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    for (int64_t i = 0; i < rows * 3; ++i)
      EXPECT_NEAR((*outputs)[0].data<float>()[i], (*expected)[0].data<float>()[i], 1e-5);
  }
  run.inputs.values["x"] = rows_of(2);
  EXPECT_FALSE(prepare_model(run).ok());

  const auto same = compile_versions(request, {{{"N", 2}}, {{"N", 2}}}, /*fallback=*/true);
  ASSERT_FALSE(same.ok());
  EXPECT_THAT(same.error().message, ::testing::HasSubstr("N=2 and N=2 give the inputs the same"));
}

}  // namespace
}  // namespace weft
