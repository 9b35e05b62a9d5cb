// `weft quantize`: the file it writes runs and is near the original; what it refuses leaves
// nothing.

#include <gmock/gmock.h>

#include <cmath>

#include "io/npy.h"
#include "io/npz.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/tools/command.h"

namespace weft::testing {
namespace {

using onnx::TestModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

HostTensor waves(Shape shape) {
  HostTensor out(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_double(i, static_cast<double>(i * 37 % 101) / 50 - 1);
  return out;
}

/// Two products, "first" and "second", with weights of 64 rows and columns.
std::string products() {
  TestModel model;
  model.opset(17).input("x", DType::kF32, {3, 64});
  model.initializer("w", waves({64, 64})).initializer("u", waves({64, 64}));
  model.node({"MatMul", {"x", "w"}, {"a"}, {}, "first"}).node({"Tanh", {"a"}, {"t"}});
  model.node({"MatMul", {"t", "u"}, {"y"}, {}, "second"}).output("y");
  return model.model();
}

class Quantize : public ::testing::Test {
 protected:
  CommandRun quantize(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"quantize", model_, "-o", made_, "--no-cache"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_weft(arguments);
  }
  /// What the model makes of the inputs.
  HostTensor output_of(const std::string& model) {
    const CommandRun run = run_weft(
        {"run", model, "--inputs", inputs_, "--output-dir", folder_.path("made"), "--no-cache"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    auto output = load_npy(folder_.path("made/y.npy"));
    EXPECT_TRUE(output.ok());
    return std::move(*output);
  }
  void expect_near_original(double most) {
    const HostTensor was = output_of(model_), now = output_of(made_);
    ASSERT_EQ(was.shape(), now.shape());
    double off = 0, size = 0;
    for (int64_t i = 0; i < was.size(); ++i) {
      off += std::pow(was.at_double(i) - now.at_double(i), 2);
      size += std::pow(was.at_double(i), 2);
    }
    EXPECT_GT(off, 0);
    EXPECT_LT(std::sqrt(off / size), most);
  }

  TestFolder folder_;
  const std::string model_ = folder_.write("m.onnx", products());
  const std::string made_ = folder_.path("small.onnx");
  const std::string inputs_ = [this] {
    EXPECT_TRUE(save_npz(folder_.path("x.npz"), {{"x", waves({3, 64})}}).ok());
    return folder_.path("x.npz");
  }();
};

TEST_F(Quantize, WritesAModelThatIsNearTheOriginal) {
  const CommandRun run = quantize({});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("MatMul first"), HasSubstr("MatMul second"), HasSubstr("2 layers")));
  expect_near_original(0.02);
}

TEST_F(Quantize, InBlocksOfFourBits) {
  const CommandRun run = quantize({"--bits", "4", "--exclude", "second"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("MatMul first"), Not(HasSubstr("second"))));
  expect_near_original(0.2);
}

TEST_F(Quantize, ValuesToo) {
  const CommandRun run = quantize({"--calibrate", inputs_});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  expect_near_original(0.05);
}

TEST_F(Quantize, RefusesWithoutLeavingAFile) {
  const CommandRun unknown = quantize({"--exclude", "third"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("third"));
  EXPECT_EQ(quantize({"--bits", "3"}).exit_code, 2);
  EXPECT_EQ(quantize({"--calibrate", folder_.path("none.npz")}).exit_code, 2);
  EXPECT_THAT(folder_.files(), ElementsAre("m.onnx", "x.npz"));
}

}  // namespace
}  // namespace weft::testing
