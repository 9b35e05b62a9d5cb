#include "driver/models/load_or_compile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "driver/session.h"
#include "tests/import/onnx/model_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 256;

/// y = relu(x · w + b), x f32[N,256]; w lies in another file.
class LoadOrCompileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("weft_load_or_compile_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    write_weights(0.001F);
    write_model("Relu");
    options_.cache_dir = (root_ / "cache").string();
    options_.threads = 1;
    options_.import.bind["N"] = 4;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write_weights(float step) const {
    std::ofstream file(root_ / "w.bin", std::ios::binary);
    for (int64_t i = 0; i < kWidth * kWidth; ++i) {
      const float value = step * static_cast<float>(i % 97) - 0.04F;
      file.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }

  void write_model(const std::string& activation) const {
    std::string tensor;
    protozero::pbf_writer message(tensor);
    message.add_int64(1, kWidth);
    message.add_int64(1, kWidth);
    message.add_int32(2, 1);
    message.add_string(8, "w");
    std::string entry;
    protozero::pbf_writer writer(entry);
    writer.add_string(1, "location");
    writer.add_string(2, "w.bin");
    message.add_message(13, entry);
    message.add_int32(14, 1);
    std::ofstream(root_ / "m.onnx", std::ios::binary)
        << onnx::TestModel()
               .input("x", DType::kF32, {"N", kWidth})
               .initializer_message(tensor)
               .initializer("b", onnx::f32_tensor({2}, {0.5F, -0.5F}))
               .node({"MatMul", {"x", "w"}, {"p"}})
               .node({"ReduceSum", {"b"}, {"s"}, {onnx::int_attr("keepdims", 0)}})
               .node({"Add", {"p", "s"}, {"q"}})
               .node({activation, {"q"}, {"y"}})
               .output("y")
               .model();
  }

  CompiledModel load(const char* name = "m.onnx") const {
    auto model = load_or_compile((root_ / name).string(), options_);
    EXPECT_TRUE(model.ok()) << model.error().message;
    if (!model.ok()) return {};
    if (model->stored.valid()) model->stored.wait();
    return std::move(*model);
  }

  /// Sum of the outputs, the model's way through compilation or cache aside.
  static double run(CompiledModel model) {
    auto session = Session::create(std::move(model.program), 1);
    EXPECT_TRUE(session.ok()) << session.error().message;
    HostTensor x(DType::kF32, (*session)->program().inputs[0].shape);
    for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, 0.01 * static_cast<double>(i % 31));
    auto outputs = (*session)->run({x});
    EXPECT_TRUE(outputs.ok()) << outputs.error().message;
    double sum = 0;
    for (int64_t i = 0; i < (*outputs)[0].size(); ++i) sum += (*outputs)[0].at_double(i);
    return sum;
  }

  std::vector<fs::path> entries(const std::string& extension) const {
    std::vector<fs::path> out;
    for (const auto& file : fs::directory_iterator(root_ / "cache"))
      if (file.path().extension() == extension) out.push_back(file.path());
    return out;
  }

  fs::path root_;
  CompileOptions options_;
};

TEST_F(LoadOrCompileTest, FindsAnHloModuleAgain) {
  std::ofstream(root_ / "m.hlo") << "HloModule m\nENTRY main {\n  x = f32[8] parameter(0)\n"
                                    "  ROOT y = f32[8] exponential(x)\n}\n";
  options_.import.bind.clear();
  EXPECT_NE(load("m.hlo").compilation, nullptr);
  const CompiledModel warm = load("m.hlo");
  EXPECT_EQ(warm.compilation, nullptr);
  ASSERT_EQ(warm.inputs.size(), 1U);
  EXPECT_EQ(warm.inputs[0].name, "arg0");
}

TEST_F(LoadOrCompileTest, FindsTheWholeModelAgain) {
  CompiledModel cold = load();
  ASSERT_NE(cold.compilation, nullptr);
  CompiledModel warm = load();
  EXPECT_EQ(warm.compilation, nullptr);
  EXPECT_EQ(warm.unique_kernels, cold.unique_kernels);
  EXPECT_EQ(warm.totals.flops, cold.totals.flops);
  EXPECT_EQ(warm.totals.ops, 4);
  ASSERT_EQ(warm.inputs.size(), 1U);
  EXPECT_EQ(warm.inputs[0].symbols, (std::vector<std::string>{"N", ""}));
  const double expected = run(std::move(cold));
  EXPECT_NE(expected, 0);
  EXPECT_EQ(run(std::move(warm)), expected);
}

TEST_F(LoadOrCompileTest, BindingsShareThePackedWeights) {
  options_.import.bind["N"] = 16;  // of fewer rows than a tile's the tile is another
  load();
  ASSERT_EQ(entries(".constant").size(), 1U);
  const auto written = fs::last_write_time(entries(".constant")[0]);
  options_.import.bind["N"] = 24;
  const CompiledModel other = load();
  EXPECT_NE(other.compilation, nullptr);
  ASSERT_EQ(entries(".constant").size(), 1U);
  EXPECT_EQ(fs::last_write_time(entries(".constant")[0]), written);
}

TEST_F(LoadOrCompileTest, OptionsThatChangeTheProgramAskForAnotherEntry) {
  load();
  options_.planner = "none";
  EXPECT_NE(load().compilation, nullptr);
  EXPECT_EQ(load().compilation, nullptr);
  options_.max_vector_bytes = 16;
  EXPECT_NE(load().compilation, nullptr);
  options_.unroll = true;
  EXPECT_NE(load().compilation, nullptr);
}

TEST_F(LoadOrCompileTest, APrecisionAsksForAnotherEntry) {
  const double exact = run(load());
  options_.precision = Precision::kBFloat16;
  CompiledModel rounded = load();
  EXPECT_NE(rounded.compilation, nullptr);
  const double sum = run(std::move(rounded));
  EXPECT_NE(sum, exact);
  EXPECT_NEAR(sum, exact, 0.01 * std::abs(exact));
  CompiledModel again = load();
  EXPECT_EQ(again.compilation, nullptr);
  EXPECT_EQ(run(std::move(again)), sum);
}

TEST_F(LoadOrCompileTest, AnotherModelUnderTheSameNameIsCompiled) {
  const double relu = run(load());
  write_model("Neg");
  CompiledModel negated = load();
  EXPECT_NE(negated.compilation, nullptr);
  EXPECT_NE(run(std::move(negated)), relu);
}

TEST_F(LoadOrCompileTest, OtherExternalDataIsReadAgain) {
  const double before = run(load());
  write_weights(0.002F);
  CompiledModel changed = load();
  EXPECT_NE(changed.compilation, nullptr);
  const double after = run(std::move(changed));
  EXPECT_NE(after, before);
  EXPECT_EQ(run(load()), after);
  fs::remove(root_ / "w.bin");
  EXPECT_FALSE(load_or_compile((root_ / "m.onnx").string(), options_).ok());
}

TEST_F(LoadOrCompileTest, AModelThatMovedWithItsDataIsFound) {
  load();
  fs::create_directories(root_ / "moved");
  fs::rename(root_ / "m.onnx", root_ / "moved" / "m.onnx");
  fs::rename(root_ / "w.bin", root_ / "moved" / "w.bin");
  auto moved = load_or_compile((root_ / "moved" / "m.onnx").string(), options_);
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_EQ(moved->compilation, nullptr);
  EXPECT_EQ(moved->program.model, (root_ / "moved" / "m.onnx").string());
}

TEST_F(LoadOrCompileTest, DamagedEntriesAreWrittenAgain) {
  const double expected = run(load());
  for (const char* extension : {".model", ".constant", ".kernel"}) {
    for (const fs::path& path : entries(extension)) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
      file.put('\x5a').put('\xa5');
    }
    EXPECT_EQ(run(load()), expected) << extension;
    EXPECT_EQ(load().compilation, nullptr) << extension;
  }
  for (const fs::path& path : entries(".constant")) fs::remove(path);
  EXPECT_EQ(run(load()), expected);
  EXPECT_EQ(entries(".constant").size(), 1U);
}

TEST_F(LoadOrCompileTest, WithoutAFolderTheModelIsCompiled) {
  const double expected = run(load());
  std::ofstream(root_ / "blocked") << "no folder";
  options_.cache_dir = (root_ / "blocked").string();
  EXPECT_EQ(run(load()), expected);
  options_.cache_dir.clear();
  EXPECT_EQ(run(load()), expected);
}

}  // namespace
}  // namespace weft
