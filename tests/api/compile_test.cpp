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

TEST_F(Compile, RunsBeginUnfusedAndChangeToThePlan) {
  weft::CompileOptions options;
  options.start_unfused = true;
  const auto model = compile(options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(run_twice(*model), "");
  const weft::Status waited = model->wait_for_plan();
  ASSERT_TRUE(waited.ok()) << waited.error().message;
  EXPECT_EQ(run_twice(*model), "");
  const auto fused = compile();
  ASSERT_TRUE(fused.ok());
  EXPECT_EQ(model->explanation(), fused->explanation());
  EXPECT_EQ(model->kernel_count(), fused->kernel_count());
}

/// The plan's file is wrong, which no unfused run asks for.
TEST_F(Compile, RunsStayUnfusedWithoutThePlan) {
  weft::CompileOptions unfused;
  unfused.plan = "none";
  const auto none = compile(unfused);
  ASSERT_TRUE(none.ok());
  std::ofstream(path("bad.plan")) << "plan auto {\n  kernel of nothing\n}\n";
  weft::CompileOptions options;
  options.plan = path("bad.plan");
  EXPECT_FALSE(compile(options).ok());
  options.start_unfused = true;
  const auto model = compile(options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_THAT(model->wait_for_plan().error().message, HasSubstr("bad.plan"));
  EXPECT_EQ(run_twice(*model), "");
  EXPECT_EQ(model->kernel_count(), none->kernel_count());
}

TEST_F(Compile, ACancelledStartIsNone) {
  weft::CancellationToken token;
  token.cancel();
  weft::CompileOptions options;
  options.start_unfused = true;
  options.cancel = &token;
  EXPECT_EQ(compile(options).error().code, weft::ErrorCode::kInterrupted);
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

TEST_F(Compile, ModelsSayWhatTheyLeaveOpen) {
  const auto model = weft::Model::open(path("m.onnx"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->inputs().size(), 2U);
  const weft::ModelTensor& xs = model->inputs()[1];
  EXPECT_EQ(xs.name, "xs");
  EXPECT_EQ(xs.dtype, weft::DType::kF32);
  ASSERT_TRUE(xs.shape && xs.shape->size() == 2);
  EXPECT_EQ((*xs.shape)[0].extent, kSteps);
  EXPECT_EQ((*xs.shape)[1].extent, weft::kOpen);
  EXPECT_EQ((*xs.shape)[1].name, "N");
  EXPECT_EQ(model->outputs()[1].name, "z");
  EXPECT_THAT(weft::Model::open(path("none.onnx")).error().message, HasSubstr("none.onnx"));
}

TEST_F(Compile, BytesCompileLikeTheFile) {
  std::ifstream file(path("m.onnx"), std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  weft::CompileOptions options;
  options.bind["N"] = kWidth;
  const auto model = weft::Model::from_bytes(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto compiled = weft::compile(*model, options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_EQ(run_twice(*compiled), "");
  const std::string noise = "this is no model";
  EXPECT_EQ(weft::Model::from_bytes(std::as_bytes(std::span(noise))).error().code,
            weft::ErrorCode::kInvalidInput);
}

TEST_F(Compile, ASecondCompilationOfBytesIsReadFromTheCache) {
  std::ifstream file(path("m.onnx"), std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const auto model = weft::Model::from_bytes(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(model.ok()) << model.error().message;
  weft::CompileOptions options;
  options.bind["N"] = kWidth;
  options.cache_dir = path("cache");
  int passes = 0;
  options.progress = [&](const weft::CompileProgress&) { ++passes; };
  ASSERT_TRUE(weft::compile(*model, options).ok());
  EXPECT_GT(passes, 0);
  passes = 0;
  const auto again = weft::compile(*model, options);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(passes, 0);
  EXPECT_EQ(run_twice(*again), "");
}

TEST_F(Compile, TellsHowFarItIs) {
  weft::CompileOptions options;
  std::vector<std::string> begun;
  int64_t done = 0, total = 0;
  options.progress = [&](const weft::CompileProgress& p) {
    if (p.total == 0) {
      begun.emplace_back(p.pass);
    } else {
      EXPECT_EQ(p.done, done + 1);
      done = p.done;
      total = p.total;
    }
  };
  ASSERT_TRUE(compile(options).ok());
  EXPECT_THAT(begun, ::testing::IsSupersetOf({"simplify", "plan", "generate"}));
  EXPECT_GT(total, 0);
  EXPECT_EQ(done, total);
}

TEST_F(Compile, EndsWhenItIsCancelled) {
  for (const std::string at : {"simplify", "plan", "lower", "generate"}) {
    weft::CancellationToken token;
    weft::CompileOptions options;
    options.cancel = &token;
    std::string last;
    options.progress = [&](const weft::CompileProgress& p) {
      last = p.pass;
      if (p.pass == at) token.cancel();
    };
    const auto model = compile(options);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, weft::ErrorCode::kInterrupted);
    EXPECT_EQ(last, at);
  }
}

TEST_F(Compile, ExplainsItself) {
  const auto model = compile();
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_THAT(model->explanation(), HasSubstr("kernels"));
  EXPECT_THAT(model->explanation_json(), HasSubstr("\"predicted_us\""));
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Compile, WritesItsPlanAsAPage) {
  const auto model = compile();
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_TRUE(model->save_page(path("brief.html")).ok());
  const std::string brief = text_of_file(path("brief.html"));
  EXPECT_THAT(brief, HasSubstr("\"predicted_us\""));
  EXPECT_THAT(brief, HasSubstr("\"texts\":[]"));
  EXPECT_EQ(model->save_page("/no/such/folder/x.html").error().code,
            weft::ErrorCode::kInvalidInput);
  EXPECT_EQ(model->save_page(path("x.html"), {.compare_with = path("m.plan")}).error().code,
            weft::ErrorCode::kInvalidInput);

  const auto source = weft::Model::open(path("m.onnx"));
  ASSERT_TRUE(source.ok()) << source.error().message;
  weft::CompileOptions options;
  options.bind["N"] = kWidth;
  ASSERT_TRUE(weft::save_page(*source, path("whole.html"), options).ok());
  EXPECT_THAT(text_of_file(path("whole.html")), HasSubstr("\"tile\":0"));
  options.bind.clear();
  EXPECT_EQ(weft::save_page(*source, path("unbound.html"), options).error().code,
            weft::ErrorCode::kInvalidInput);
}

TEST_F(Compile, MeasuresForAPageAndComparesItsPlan) {
  const auto source = weft::Model::open(path("m.onnx"));
  ASSERT_TRUE(source.ok()) << source.error().message;
  weft::CompileOptions options;
  options.bind["N"] = kWidth;
  ASSERT_TRUE(weft::save_page(*source, path("plain.html"), options).ok());
  EXPECT_THAT(text_of_file(path("plain.html")), ::testing::Not(HasSubstr("\"run_us\":")));
  weft::Status saved = weft::save_page(*source, path("m.html"), options, {.measure = true});
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_THAT(text_of_file(path("m.html")), HasSubstr("\"run_us\":"));
  saved = weft::save_page(*source, path("m.html"), options, {.compare_with = path("no.plan")});
  EXPECT_EQ(saved.error().code, weft::ErrorCode::kInvalidInput);
  EXPECT_THAT(saved.error().message, HasSubstr("no.plan"));

  const auto model = compile();
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_TRUE(model->save(path("m.weft")).ok());
  const auto loaded = weft::load(path("m.weft"));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  saved = loaded->save_page(path("m.html"), {.measure = true});
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_THAT(text_of_file(path("m.html")), HasSubstr("\"run_us\":"));
}

TEST(Targets, NameTheOnesThatCompileTakes) {
  const std::vector<weft::TargetInfo> targets = weft::targets();
  ASSERT_GE(targets.size(), 3U);
  EXPECT_EQ(targets[0].name, "cpu");
  EXPECT_TRUE(targets[0].is_here);
  EXPECT_EQ(targets[1].name, "cuda");
  EXPECT_FALSE(targets[1].description.empty());
}

TEST_F(Compile, TakesAPlanFromAFile) {
  weft::CompileOptions options;
  options.plan = path("none.plan");
  EXPECT_THAT(compile(options).error().message, HasSubstr("none.plan"));
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
  options.plan = "auto";
  options.precision = "f12";
  EXPECT_THAT(compile(options).error().message, HasSubstr("f12"));
  options.precision = "bf16";
  EXPECT_TRUE(compile(options));
}

}  // namespace
