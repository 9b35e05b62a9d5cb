// Modules of models/hlo that are small enough, compiled and interpreted on the same inputs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "driver/compiler.h"
#include "driver/models/model_inputs.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "io/import_model.h"
#include "io/onnx_case.h"
#include "tests/paths.h"

namespace weft {
namespace {

std::string path_of(const std::string& name) {
  return std::string(WEFT_SOURCE_DIR) + "/models/hlo/" + name;
}

/// Positive numbers about 0.3, of which roots and logarithms exist; a sum of probabilities is not
/// far from 1. Integers are random in their ranges.
GivenInputs inputs_for(const ImportedModel& model) {
  GivenInputs given;
  for (const ImportedInput& input : model.inputs) {
    if (!is_float(input.type.dtype)) continue;
    HostTensor values(input.type.dtype, input.type.shape);
    uint32_t state = static_cast<uint32_t>(given.values.size()) + 1;
    for (int64_t i = 0; i < values.size(); ++i) {
      state = state * 1664525 + 1013904223;
      values.set_double(i, 0.05 + 0.5 * (state >> 8) / (1 << 24));
    }
    given.values.emplace(input.name, std::move(values));
  }
  return given;
}

class HloProgram : public testing::TestWithParam<std::string> {};

TEST_P(HloProgram, AgreesWithTheInterpreter) {
  const auto model = import_model(path_of(GetParam()));
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto inputs = program_inputs(model->inputs, graph_inputs(model->graph), inputs_for(*model));
  ASSERT_TRUE(inputs.ok()) << inputs.error().message;
  const auto expected = interpret(model->graph, *inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  CompileOptions options;
  options.threads = 2;
  options.verify = true;
  const auto c = compile_model(path_of(GetParam()), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  auto session = Session::create((*c)->program, 2);
  ASSERT_TRUE(session.ok()) << session.error().message;
  const auto outputs = (*session)->run(*inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), expected->size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    for (int64_t k = 0; k < (*expected)[i].size(); ++k) {
      ASSERT_TRUE(std::isfinite((*expected)[i].at_double(k))) << "output " << i;
    }
    const Status same = compare_tensors((*outputs)[i], (*expected)[i], {1e-4, 1e-5});
    EXPECT_TRUE(same.ok()) << (*c)->graph.output_names[i] << ": " << same.error().message;
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param.substr(0, test.param.find(".gz"));
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(SmallModules, HloProgram,
                         testing::Values("softmax.hlo", "layernorm.hlo", "logistic.hlo",
                                         "logistic.verbose.hlo", "mmoe.hlo", "perceptron.hlo",
                                         "multi-interests-256.hlo", "efficientnet-se-m0.hlo",
                                         "gemm-chain-g4.hlo", "lstm-souffle.hlo.gz",
                                         "dyn-rnn.hlo.gz"),
                         name_of);

}  // namespace
}  // namespace weft
