#include "quantize/model_text.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "import/onnx/model.h"

namespace weft::onnx {
namespace {

constexpr uint32_t kGraph = 7;         ///< of a ModelProto
constexpr uint32_t kInitializer = 5;   ///< of a GraphProto
constexpr uint32_t kGraphOutput = 12;  ///< of a GraphProto

OnnxType type_of(DType type) {
  switch (type) {
    case DType::kF32:
      return OnnxType::kFloat;
    case DType::kF64:
      return OnnxType::kDouble;
    case DType::kF16:
      return OnnxType::kFloat16;
    case DType::kBF16:
      return OnnxType::kBfloat16;
    case DType::kI8:
      return OnnxType::kInt8;
    case DType::kU8:
      return OnnxType::kUint8;
    case DType::kI16:
      return OnnxType::kInt16;
    case DType::kU16:
      return OnnxType::kUint16;
    case DType::kI32:
      return OnnxType::kInt32;
    case DType::kU32:
      return OnnxType::kUint32;
    case DType::kI64:
      return OnnxType::kInt64;
    case DType::kU64:
      return OnnxType::kUint64;
    case DType::kBool:
      return OnnxType::kBool;
  }
  return OnnxType::kUndefined;
}

}  // namespace

void copy_fields(std::string_view message, std::string* out,
                 const std::function<bool(uint32_t, std::string_view)>& replace) {
  protozero::pbf_reader reader(message.data(), message.size());
  while (true) {
    const char* begin = reader.data().data();
    if (!reader.next()) return;
    const uint32_t field = reader.tag();  // which reading the field takes away
    std::string_view bytes;
    if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
      const protozero::data_view view = reader.get_view();
      bytes = {view.data(), view.size()};
    } else {
      reader.skip();
    }
    if (!replace(field, bytes)) out->append(begin, reader.data().data());
  }
}

void append_bytes(std::string* message, uint32_t field, std::string_view bytes) {
  protozero::pbf_writer(*message).add_bytes(field, bytes.data(), bytes.size());
}

std::string tensor_message(std::string_view name, const HostTensor& value) {
  std::string out;
  protozero::pbf_writer message(out);
  for (const int64_t extent : value.shape()) message.add_int64(1, extent);
  message.add_int32(2, static_cast<int32_t>(type_of(value.dtype())));
  message.add_bytes(8, name.data(), name.size());
  message.add_bytes(9, reinterpret_cast<const char*>(value.raw()),
                    static_cast<size_t>(value.bytes()));
  return out;
}

std::string node_message(std::string_view name, std::string_view domain, std::string_view op_type,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs,
                         const std::vector<IntAttribute>& attributes) {
  constexpr int32_t kInt = 2;  // AttributeProto.AttributeType
  std::string out;
  protozero::pbf_writer message(out);
  for (const std::string& input : inputs) message.add_bytes(1, input);
  for (const std::string& output : outputs) message.add_bytes(2, output);
  message.add_bytes(3, name.data(), name.size());
  message.add_bytes(4, op_type.data(), op_type.size());
  for (const IntAttribute& attribute : attributes) {
    std::string one;
    protozero::pbf_writer writer(one);
    writer.add_bytes(1, attribute.name.data(), attribute.name.size());
    writer.add_int64(3, attribute.value);
    writer.add_int32(20, kInt);
    message.add_message(5, one);
  }
  if (!domain.empty()) message.add_bytes(7, domain.data(), domain.size());
  return out;
}

std::string held_tensor(std::string_view tensor, const TensorSource& source) {
  constexpr uint32_t kExternalData = 13;
  bool external = false;
  std::string ignored;
  copy_fields(tensor, &ignored, [&](uint32_t field, std::string_view) {
    external |= field == kExternalData;
    return true;
  });
  if (!external) return std::string(tensor);
  return tensor_message(read_tensor_def(tensor).name, read_tensor(tensor, source));
}

std::string with_outputs(std::string_view model, const std::vector<std::string>& names,
                         const TensorSource& source) {
  std::string out;
  copy_fields(model, &out, [&](uint32_t field, std::string_view bytes) {
    if (field != kGraph) return false;
    std::string graph;
    copy_fields(bytes, &graph, [&](uint32_t part, std::string_view tensor) {
      if (part != kInitializer) return false;
      append_bytes(&graph, kInitializer, held_tensor(tensor, source));
      return true;
    });
    for (const std::string& name : names) {
      std::string tensor, type, value;
      protozero::pbf_writer(tensor).add_int32(1, static_cast<int32_t>(OnnxType::kFloat));
      append_bytes(&type, 1, tensor);
      append_bytes(&value, 1, name);
      append_bytes(&value, 2, type);
      append_bytes(&graph, kGraphOutput, value);
    }
    append_bytes(&out, kGraph, graph);
    return true;
  });
  return out;
}

}  // namespace weft::onnx
