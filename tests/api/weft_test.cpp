// The public C++ interface, seen as its users see it.

#include "weft/weft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/api/model_files.h"

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Api : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weft-api-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    ASSERT_TRUE(weft::testing::write_sorting_artefact(path(), {4}));
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name = "m.weft") const { return folder_ / name; }

  fs::path folder_;
  const std::vector<float> x_ = {3, -1, 7, 2};
  std::vector<float> state_ = {100, 200, 300, 400}, y_ = std::vector<float>(4);
  std::vector<int64_t> order_ = std::vector<int64_t>(4);
  const std::vector<int64_t> shape_ = {4};
};

TEST_F(Api, RunsOnMemoryOfTheCaller) {
  const auto model = weft::load(path());
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->inputs().size(), 2u);
  EXPECT_EQ(model->inputs()[1].name, "state");
  EXPECT_EQ(model->outputs()[1].dtype, weft::DType::kI64);
  EXPECT_EQ(model->outputs()[2].shape, shape_);
  EXPECT_EQ(model->kernel_count(), 2);
  auto context = model->new_context();
  ASSERT_TRUE(context.ok());
  const weft::Input inputs[] = {weft::input(x_, shape_), weft::input(state_, shape_)};
  const weft::Output outputs[] = {weft::output(y_, shape_), weft::output(order_, shape_),
                                  weft::output(state_, shape_)};  // the state passes through
  for (int repeat = 1; repeat <= 3; ++repeat) {
    ASSERT_TRUE(context->run(inputs, outputs).ok());
    EXPECT_THAT(y_, ElementsAre(-1, 2, 3, 7));
    EXPECT_THAT(order_, ElementsAre(1, 3, 0, 2));
    EXPECT_EQ(state_[2], 300 + 7 * repeat);
  }
}

TEST_F(Api, TakesStrides) {
  const auto model = weft::load(path());
  auto context = model->new_context();
  const int64_t every_other[] = {2}, backwards[] = {-1};
  const std::vector<float> wide = {3, 0, -1, 0, 7, 0, 2, 0};
  const weft::Input inputs[] = {{weft::DType::kF32, shape_, wide.data(), every_other},
                                weft::input(state_, shape_)};
  std::vector<float> next(4);
  const weft::Output outputs[] = {{weft::DType::kF32, shape_, y_.data() + 3, backwards},
                                  weft::output(order_, shape_),
                                  weft::output(next, shape_)};
  const weft::Status status = context->run(inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_THAT(y_, ElementsAre(7, 3, 2, -1));
}

TEST_F(Api, ErrorsAreValues) {
  const auto missing = weft::load(path("none"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, weft::ErrorCode::kInvalidInput);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  auto context = weft::load(path())->new_context();
  const weft::Status status = context->run({{weft::input(x_, shape_)}}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "expected 2 inputs, got 1");
  weft::ThreadPool::Options options;
  options.threads = -5;
  EXPECT_FALSE(weft::ThreadPool::create(options).ok());
  EXPECT_FALSE(weft::load(path())->save(path("no/folder")).ok());
}

TEST_F(Api, DispatchesOnShapes) {
  ASSERT_TRUE(weft::testing::write_sorting_artefact(path("two"), {4, 2}));
  auto context = weft::load(path("two"))->new_context();
  const std::vector<int64_t> pair = {2};
  const weft::Input inputs[] = {weft::input(x_, pair), weft::input(state_, pair)};
  const weft::Output outputs[] = {weft::output(y_, pair), weft::output(order_, pair),
                                  weft::output(state_, pair)};
  ASSERT_TRUE(context->run(inputs, outputs).ok());
  EXPECT_EQ(y_[0], -1);
  EXPECT_EQ(y_[1], 3);
}

TEST_F(Api, IsCancelledFromAnotherThread) {
  ASSERT_TRUE(weft::testing::write_endless_artefact(path("endless")));
  auto context = weft::load(path("endless"))->new_context();
  weft::CancellationToken token;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    token.cancel();
  });
  std::vector<float> y(1);
  const std::vector<int64_t> one = {1};
  const weft::Status status = context->run({}, {{weft::output(y, one)}}, &token);
  canceller.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, weft::ErrorCode::kInterrupted);
}

TEST_F(Api, SavedCopiesLoad) {
  ASSERT_TRUE(weft::load(path())->save(path("copy")).ok());
  const auto copy = weft::load(path("copy"));
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->inputs()[0].name, "x");
}

TEST_F(Api, PoolsAreShared) {
  weft::ThreadPool::Options options;
  options.threads = 2;
  const auto pool = weft::ThreadPool::create(options);
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->threads(), 2);
  weft::LoadOptions load;
  load.pool = *pool;
  const auto first = weft::load(path(), load), second = weft::load(path(), load);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(first->new_context().ok() && second->new_context().ok());
}

TEST(ApiTypes, HaveSizesAndNames) {
  EXPECT_EQ(weft::byte_size(weft::DType::kF16), 2);
  EXPECT_EQ(weft::byte_size(weft::DType::kF64), 8);
  EXPECT_EQ(weft::dtype_name(weft::DType::kBF16), "bf16");
}

}  // namespace
