// Comparing tensors and running backend test folders.

#include "io/onnx_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "interp/interpreter.h"
#include "tests/import/onnx/model_writer.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

TEST(CompareTensors, AllowsToleranceNanAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const HostTensor a = onnx::f32_tensor({4}, {1, std::nanf(""), inf, 100});
  EXPECT_TRUE(
      compare_tensors(onnx::f32_tensor({4}, {1.0005f, std::nanf(""), inf, 100.05f}), a, {}).ok());
  EXPECT_FALSE(compare_tensors(onnx::f32_tensor({4}, {1, std::nanf(""), -inf, 100}), a, {}).ok());
  EXPECT_FALSE(compare_tensors(onnx::f32_tensor({4}, {1, 2, inf, 100}), a, {}).ok());
  EXPECT_FALSE(
      compare_tensors(onnx::f32_tensor({4}, {std::nanf(""), std::nanf(""), inf, 100}), a, {}).ok());
}

TEST(CompareTensors, NamesTheWorstElement) {
  const Status status =
      compare_tensors(onnx::f32_tensor({3}, {1.1f, 7, 3}), onnx::f32_tensor({3}, {1, 2, 3}), {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kComparison);
  EXPECT_THAT(status.error().message,
              HasSubstr("2 of 3 elements differ, most at [1]: 7 instead of 2"));
}

TEST(CompareTensors, WantsTypeAndShapeEqual) {
  const HostTensor a = onnx::f32_tensor({2}, {1, 2});
  EXPECT_THAT(compare_tensors(a, onnx::f32_tensor({2, 1}, {1, 2}), {}).error().message,
              HasSubstr("f32[2] instead of f32[2,1]"));
  EXPECT_THAT(compare_tensors(a, onnx::i64_tensor({2}, {1, 2}), {}).error().message,
              HasSubstr("instead of i64[2]"));
}

TEST(CompareTensors, ToleratesNothingInLargeIntegers) {
  const int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_TRUE(
      compare_tensors(onnx::i64_tensor({1}, {big}), onnx::i64_tensor({1}, {big}), {0, 0}).ok());
}

class CheckCase : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weft-case-" + std::to_string(getpid()));
    fs::create_directories(folder_ / "test_data_set_0");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  CaseResult check() const {
    return check_case(folder_.string(),
                      [](const ImportedModel& model, const std::vector<HostTensor>& inputs) {
                        return interpret(model.graph, inputs);
                      });
  }
  fs::path folder_;
};

TEST_F(CheckCase, PassesFailsAndSkips) {
  const auto model = [](const std::string& op) {
    return onnx::TestModel()
        .input("x", DType::kF32, {"n"})
        .node({op, {"x"}, {"y"}})
        .output("y")
        .model();
  };
  write("test_data_set_0/input_0.pb", onnx::tensor_message("", onnx::f32_tensor({2}, {1, -2})));
  write("test_data_set_0/output_0.pb", onnx::tensor_message("", onnx::f32_tensor({2}, {-1, 2})));
  write("model.onnx", model("Neg"));
  EXPECT_EQ(check().status, CaseStatus::kPassed);
  write("model.onnx", model("Abs"));
  EXPECT_EQ(check().status, CaseStatus::kFailed);
  EXPECT_THAT(check().reason, HasSubstr("most at [0]: 1 instead of -1"));
  write("model.onnx", model("Twist"));
  EXPECT_EQ(check().status, CaseStatus::kSkipped);
  EXPECT_THAT(check().reason, HasSubstr("Twist"));
  write("model.onnx", "nonsense");
  EXPECT_EQ(check().status, CaseStatus::kFailed);
}

}  // namespace
}  // namespace weft
