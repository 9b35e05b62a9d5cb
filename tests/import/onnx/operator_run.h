#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/import/onnx/importing.h"

namespace weft::onnx {

inline std::string floats_attr(std::string_view name, const std::vector<float>& values) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  for (float value : values) message.add_float(7, value);
  message.add_int32(20, 6);
  return out;
}

inline std::string strings_attr(std::string_view name, const std::vector<std::string>& values) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  for (const std::string& value : values) message.add_bytes(9, value);
  message.add_int32(20, 8);
  return out;
}

template <typename T>
HostTensor tensor_of(DType type, Shape shape, const std::vector<T>& values) {
  HostTensor tensor(type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_float(type)) {
      tensor.set_double(static_cast<int64_t>(i), static_cast<double>(values[i]));
    } else {
      tensor.set_int(static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
    }
  }
  return tensor;
}

/// first, first + step, … as float32.
inline HostTensor ramp(Shape shape, float first = 1, float step = 1) {
  HostTensor tensor(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.mutable_data<float>()[i] = first + step * static_cast<float>(i);
  }
  return tensor;
}

/// A model of one node: inputs "x0", "x1", … (nullopt is absent), outputs "y0", ….
struct OneNode {
  std::string op_type;
  std::vector<std::optional<HostTensor>> inputs;
  std::vector<std::string> attributes;
  int64_t opset = 21;
  std::vector<bool> outputs = {true};
  /// Inputs that become initializers.
  std::vector<size_t> constants = {};
  std::string domain = {};

  bool is_constant(size_t i) const {
    return std::find(constants.begin(), constants.end(), i) != constants.end();
  }

  std::string model() const {
    TestModel model;
    model.opset(opset);
    TestNode node;
    node.op_type = op_type;
    node.domain = domain;
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::string name = inputs[i] ? "x" + std::to_string(i) : "";
      node.inputs.push_back(name);
      if (!inputs[i]) continue;
      const Shape& shape = inputs[i]->shape();
      if (is_constant(i)) {
        model.initializer(name, *inputs[i]);
      } else {
        model.input(name, inputs[i]->dtype(), std::vector<Dim>(shape.begin(), shape.end()));
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      node.outputs.push_back(outputs[i] ? "y" + std::to_string(i) : "");
    }
    node.attributes = attributes;
    model.node(node);
    for (const std::string& name : node.outputs) {
      if (!name.empty()) model.output(name);
    }
    return model.model();
  }

  std::map<std::string, HostTensor> values() const {
    std::map<std::string, HostTensor> known;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] && !is_constant(i)) known.emplace("x" + std::to_string(i), *inputs[i]);
    }
    return known;
  }

  std::vector<HostTensor> run() const { return run_model(model(), values()); }

  /// The elements of output `i`; its shape is expected to be `shape`.
  std::vector<double> run_for(const Shape& shape, size_t i = 0) const {
    std::vector<HostTensor> results = run();
    EXPECT_GT(results.size(), i);
    if (results.size() <= i) return {};
    EXPECT_EQ(results[i].shape(), shape);
    return values_of(results[i]);
  }

  std::string text() const { return import_text(model()); }

  /// The message of the refusal, with the inputs unknown.
  std::string refusal(ErrorCode code = ErrorCode::kUnsupported) const {
    return import_error(model(), {}, code);
  }
};

/// Equal up to float32 rounding; NaN equals NaN.
inline void expect_values(const std::vector<double>& actual, const std::vector<double>& expected,
                          double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size()) << testing::PrintToString(actual);
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    if (actual[i] == expected[i]) continue;
    EXPECT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << "element " << i << " of " << testing::PrintToString(actual);
  }
}

}  // namespace weft::onnx
