// Models compiled and run through the public interface.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/api/model_files.h"
#include "weft/weft.h"

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 5, kWidth = 300;

class Compile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weft-compile-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    ASSERT_TRUE(weft::testing::write_recurrent_model(path("m.onnx")));
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }
  weft::Result<weft::Executable> compile(weft::CompileOptions options = {}) const {
    options.bind["N"] = kWidth;
    return weft::compile(path("m.onnx"), options);
  }

  fs::path folder_;
};

/// One caller with its own context, who passes the state back into itself.
std::string run_twice(const weft::Executable& model) {
  auto context = model.new_context();
  if (!context) return context.error().message;
  std::vector<float> state(kWidth), xs(kSteps * kWidth), z(kSteps * kWidth);
  for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i % 5) - 1;
  std::vector<float> expected = state;
  const std::vector<int64_t> shape = {kWidth}, sequence = {kSteps, kWidth};
  for (int run = 0; run < 2; ++run) {
    const weft::Input inputs[] = {weft::input(state, shape), weft::input(xs, sequence)};
    const weft::Output outputs[] = {weft::output(state, shape), weft::output(z, sequence)};
    const weft::Status status = context->run(inputs, outputs);
    if (!status) return status.error().message;
    for (size_t t = 0; t < kSteps; ++t) {
      for (size_t i = 0; i < kWidth; ++i) {
        expected[i] += xs[t * kWidth + i];
        if (z[t * kWidth + i] != 2 * expected[i] * expected[i]) return "a wrong z";
      }
    }
    if (state != expected) return "a wrong state";
  }
  return "";
}

TEST_F(Compile, EveryPlanAndThreadCountGivesTheSame) {
  for (const char* plan : {"none", "xla", "auto"}) {
    for (const int threads : {1, 2}) {
      weft::CompileOptions options;
      options.plan = plan;
      options.threads = threads;
      const auto model = compile(options);
      ASSERT_TRUE(model.ok()) << model.error().message;
      EXPECT_EQ(model->inputs()[1].name, "xs");
      EXPECT_EQ(run_twice(*model), "") << plan << " on " << threads;
    }
  }
}

TEST_F(Compile, PlansForADescribedTarget) {
  weft::CompileOptions options;
  options.target = "x86-64-v2";
  const auto model = compile(options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(run_twice(*model), "");
  options.target = "no such target";
  EXPECT_THAT(compile(options).error().message, HasSubstr("no such target"));
  std::ofstream(path("far.target")) << "name far\nfeatures avx9000\n";
  options.target = path("far.target");
  EXPECT_EQ(compile(options).error().code, weft::ErrorCode::kMissingDevice);
}

TEST_F(Compile, DimensionsBindFromShapes) {
  weft::CompileOptions options;
  options.shapes["xs"] = {kSteps, kWidth};
  const auto model = weft::compile(path("m.onnx"), options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(run_twice(*model), "");
}

TEST_F(Compile, SavedModelsRunAlike) {
  const auto model = compile();
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_TRUE(model->save(path("m.weft")).ok());
  const auto loaded = weft::load(path("m.weft"));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(run_twice(*loaded), "");
  EXPECT_EQ(loaded->kernel_count(), model->kernel_count());
}

TEST_F(Compile, ManyThreadsRunOneExecutable) {
  const auto model = compile();
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&] { wrong += run_twice(*model).empty() ? 0 : 1; });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Compile, ErrorsAreValues) {
  EXPECT_EQ(weft::compile(path("none.onnx")).error().code, weft::ErrorCode::kInvalidInput);
  std::ofstream(path("bad.onnx")) << "this is no model";
  EXPECT_THAT(weft::compile(path("bad.onnx")).error().message, HasSubstr("bad.onnx"));
  EXPECT_THAT(weft::compile(path("m.onnx")).error().message, HasSubstr("N"));  // stays open
  weft::CompileOptions options;
  options.plan = "no such plan";
  EXPECT_THAT(compile(options).error().message, HasSubstr("no such plan"));
}

}  // namespace
