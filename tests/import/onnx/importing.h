#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "import/onnx/import_onnx.h"
#include "interp/interpreter.h"
#include "tests/import/onnx/model_writer.h"

namespace weft::onnx {

inline Result<ImportedModel> import_bytes(const std::string& model,
                                          const ImportOptions& options = {},
                                          const std::string& folder = {}) {
  auto owner = std::make_shared<const std::string>(model);
  return import_onnx(bytes_of(*owner), owner, folder, options);
}

/// The printed graph, or the error's message.
inline std::string import_text(const std::string& model, const ImportOptions& options = {}) {
  const auto imported = import_bytes(model, options);
  if (!imported.ok()) return "error: " + imported.error().message;
  const Status verified = verify_graph(imported->graph);
  if (!verified.ok()) return "not verified: " + verified.error().message;
  return print(imported->graph);
}

inline std::string import_error(const std::string& model, const ImportOptions& options = {},
                                ErrorCode code = ErrorCode::kInvalidInput) {
  const auto imported = import_bytes(model, options);
  if (imported.ok()) return "no error";
  EXPECT_EQ(imported.error().code, code) << imported.error().message;
  return imported.error().message;
}

/// Imports with the inputs known, interprets, and gives the outputs.
inline std::vector<HostTensor> run_model(const std::string& model,
                                         const std::map<std::string, HostTensor>& inputs) {
  ImportOptions options;
  options.known_inputs = inputs;
  const auto imported = import_bytes(model, options);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  if (!imported.ok()) return {};
  const Status verified = verify_graph(imported->graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  std::vector<HostTensor> arguments;
  for (const ImportedInput& input : imported->inputs) {
    if (input.graph_input >= 0) arguments.push_back(inputs.at(input.name));
  }
  const auto outputs = interpret(imported->graph, arguments);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? *outputs : std::vector<HostTensor>{};
}

inline std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(tensor.at_double(i));
  return values;
}

/// The only output's elements.
inline std::vector<double> run_for_values(const std::string& model,
                                          const std::map<std::string, HostTensor>& inputs) {
  const std::vector<HostTensor> outputs = run_model(model, inputs);
  return outputs.empty() ? std::vector<double>{} : values_of(outputs[0]);
}

}  // namespace weft::onnx
