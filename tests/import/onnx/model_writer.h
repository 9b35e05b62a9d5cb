#pragma once

#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/tensor.h"

namespace weft::onnx {

/// Numbers of TensorProto.DataType that tests use.
inline int onnx_type(DType type) {
  switch (type) {
    case DType::kF32:
      return 1;
    case DType::kU8:
      return 2;
    case DType::kI8:
      return 3;
    case DType::kI32:
      return 6;
    case DType::kI64:
      return 7;
    case DType::kBool:
      return 9;
    case DType::kF16:
      return 10;
    case DType::kF64:
      return 11;
    case DType::kBF16:
      return 16;
    default:
      return 0;
  }
}

inline HostTensor f32_tensor(Shape shape, const std::vector<float>& values) {
  HostTensor tensor(DType::kF32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_data<float>()[i] = values[i];
  return tensor;
}
inline HostTensor i64_tensor(Shape shape, const std::vector<int64_t>& values) {
  HostTensor tensor(DType::kI64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_data<int64_t>()[i] = values[i];
  return tensor;
}
inline HostTensor bool_tensor(bool value) {
  HostTensor tensor(DType::kBool, {});
  tensor.set_int(0, value ? 1 : 0);
  return tensor;
}

/// A TensorProto with raw_data.
inline std::string tensor_message(std::string_view name, const HostTensor& tensor) {
  std::string out;
  protozero::pbf_writer message(out);
  for (int64_t extent : tensor.shape()) message.add_int64(1, extent);
  message.add_int32(2, onnx_type(tensor.dtype()));
  message.add_string(8, name.data(), name.size());
  message.add_bytes(9, reinterpret_cast<const char*>(tensor.raw()),
                    static_cast<size_t>(tensor.bytes()));
  return out;
}

/// A declared dimension: an extent or a name.
using Dim = std::variant<int64_t, std::string>;

inline std::string value_message(std::string_view name, DType type, const std::vector<Dim>& dims) {
  std::string shape, tensor, type_message, out;
  for (const Dim& dim : dims) {
    std::string one;
    protozero::pbf_writer message(one);
    if (const auto* extent = std::get_if<int64_t>(&dim)) {
      message.add_int64(1, *extent);
    } else {
      message.add_string(2, std::get<std::string>(dim));
    }
    protozero::pbf_writer(shape).add_message(1, one);
  }
  protozero::pbf_writer tensor_writer(tensor);
  tensor_writer.add_int32(1, onnx_type(type));
  tensor_writer.add_message(2, shape);
  protozero::pbf_writer(type_message).add_message(1, tensor);
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_message(2, type_message);
  return out;
}

/// AttributeProto messages.
inline std::string int_attr(std::string_view name, int64_t value) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_int64(3, value);
  message.add_int32(20, 2);
  return out;
}
inline std::string float_attr(std::string_view name, float value) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_float(2, value);
  message.add_int32(20, 1);
  return out;
}
inline std::string string_attr(std::string_view name, std::string_view value) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_bytes(4, value.data(), value.size());
  message.add_int32(20, 3);
  return out;
}
inline std::string ints_attr(std::string_view name, const std::vector<int64_t>& values) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  for (int64_t value : values) message.add_int64(8, value);
  message.add_int32(20, 7);
  return out;
}
inline std::string tensor_attr(std::string_view name, const HostTensor& value) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_message(5, tensor_message("", value));
  message.add_int32(20, 4);
  return out;
}
inline std::string graph_attr(std::string_view name, const std::string& graph) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_message(6, graph);
  message.add_int32(20, 5);
  return out;
}
/// An attribute of a function's node that stands for the function's own.
inline std::string ref_attr(std::string_view name, std::string_view of, int type) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(1, name.data(), name.size());
  message.add_string(21, of.data(), of.size());
  message.add_int32(20, type);
  return out;
}

/// A NodeProto.
struct TestNode {
  std::string op_type;
  std::vector<std::string> inputs = {}, outputs = {};
  std::vector<std::string> attributes = {};
  std::string name = {};
  std::string domain = {};

  std::string message() const {
    std::string out;
    protozero::pbf_writer writer(out);
    for (const std::string& input : inputs) writer.add_string(1, input);
    for (const std::string& output : outputs) writer.add_string(2, output);
    if (!name.empty()) writer.add_string(3, name);
    writer.add_string(4, op_type);
    for (const std::string& attribute : attributes) writer.add_message(5, attribute);
    if (!domain.empty()) writer.add_string(7, domain);
    return out;
  }
};

/// Writes a GraphProto and the ModelProto around it:
///     std::string model = TestModel().input("x", DType::kF32, {2, "N"}).node({"Relu", {"x"},
///     {"y"}}).output("y").model();
class TestModel {
 public:
  TestModel& input(std::string_view name, DType type, const std::vector<Dim>& dims) {
    protozero::pbf_writer(graph_).add_message(11, value_message(name, type, dims));
    return *this;
  }
  TestModel& initializer(std::string_view name, const HostTensor& value) {
    protozero::pbf_writer(graph_).add_message(5, tensor_message(name, value));
    return *this;
  }
  TestModel& initializer_message(const std::string& message) {
    protozero::pbf_writer(graph_).add_message(5, message);
    return *this;
  }
  TestModel& node(const TestNode& node) {
    protozero::pbf_writer(graph_).add_message(1, node.message());
    return *this;
  }
  TestModel& output(std::string_view name, DType type = DType::kF32) {
    protozero::pbf_writer(graph_).add_message(12, value_message(name, type, {}));
    return *this;
  }
  TestModel& function(const std::string& message) {
    protozero::pbf_writer(tail_).add_message(25, message);
    return *this;
  }
  TestModel& opset(int64_t version) {
    opset_ = version;
    return *this;
  }
  const std::string& graph() const { return graph_; }

  std::string model() const {
    std::string out, opset;
    protozero::pbf_writer opset_writer(opset);
    opset_writer.add_string(1, "");
    opset_writer.add_int64(2, opset_);
    protozero::pbf_writer writer(out);
    writer.add_int64(1, 10);
    writer.add_message(7, graph_);
    writer.add_message(8, opset);
    return out + tail_;
  }

 private:
  std::string graph_, tail_;
  int64_t opset_ = 21;
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace weft::onnx
