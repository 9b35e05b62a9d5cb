#include "import/onnx/read_model.h"

#include <fmt/format.h>

#include "import/onnx/tensor_proto.h"
#include "import/onnx/wire_message.h"

namespace weft::onnx {
namespace {

constexpr int kMaxGraphDepth = 32;

GraphDef read_graph(std::string_view message, int depth);

DimDef read_dim(std::string_view message) {
  DimDef dim;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        dim.extent = m.integer();
        dim.symbol = {};
        break;
      case 2:
        dim.symbol = m.bytes();
        dim.extent.reset();
        break;
      default:
        m.skip();
    }
  }
  return dim;
}

/// TypeProto.Tensor: element type and, optionally, shape.
void read_tensor_type(std::string_view message, ValueDef& value) {
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        value.element_type = m.integer();
        break;
      case 2:
        value.has_shape = true;
        for (WireMessage shape(m.bytes()); shape.next();) {
          if (shape.field() == 1) {
            value.dims.push_back(read_dim(shape.bytes()));
          } else {
            shape.skip();
          }
        }
        break;
      default:
        m.skip();
    }
  }
}

ValueDef read_value(std::string_view message) {
  ValueDef value;
  std::string_view name;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        name = m.bytes();
        break;
      case 2:
        value = read_type(m.bytes());
        break;
      default:
        m.skip();
    }
  }
  value.name = name;
  return value;
}

void read_attribute_number_field(WireMessage& m, Attribute& attribute) {
  switch (m.field()) {
    case 2:
      attribute.f = m.f32();
      break;
    case 3:
      attribute.i = m.integer();
      break;
    case 7:
      m.append_f32(attribute.floats);
      break;
    case 8:
      m.append_integers(attribute.ints);
      break;
    case 20:
      attribute.type = static_cast<AttributeType>(m.integer());
      break;
    default:
      m.skip();
  }
}

/// Files of IR version 1 do not say which field counts: the one that is there does.
AttributeType implied_type(uint32_t field) {
  switch (field) {
    case 2:
      return AttributeType::kFloat;
    case 3:
      return AttributeType::kInt;
    case 4:
      return AttributeType::kString;
    case 5:
      return AttributeType::kTensor;
    case 6:
      return AttributeType::kGraph;
    case 7:
      return AttributeType::kFloats;
    case 8:
      return AttributeType::kInts;
    case 9:
      return AttributeType::kStrings;
    default:
      return AttributeType::kUndefined;
  }
}

Attribute read_attribute(std::string_view message, int depth) {
  Attribute attribute;
  AttributeType implied = AttributeType::kUndefined;
  for (WireMessage m(message); m.next();) {
    if (implied_type(m.field()) != AttributeType::kUndefined) implied = implied_type(m.field());
    switch (m.field()) {
      case 1:
        attribute.name = m.bytes();
        break;
      case 4:
        attribute.s = m.bytes();
        break;
      case 5:
        attribute.t = read_tensor_def(m.bytes());
        break;
      case 6:
        attribute.g = std::make_shared<const GraphDef>(read_graph(m.bytes(), depth + 1));
        break;
      case 9:
        attribute.strings.push_back(m.bytes());
        break;
      case 14:
        attribute.type_proto = m.bytes();
        break;
      case 21:
        attribute.ref_name = m.bytes();
        break;
      case 22:
        attribute.sparse_tensor = m.bytes();
        break;
      default:
        read_attribute_number_field(m, attribute);
    }
  }
  if (attribute.name.empty()) refuse_invalid("a node has an attribute without a name");
  if (attribute.type == AttributeType::kUndefined) attribute.type = implied;
  return attribute;
}

NodeDef read_node(std::string_view message, int depth) {
  NodeDef node;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        node.inputs.push_back(m.bytes());
        break;
      case 2:
        node.outputs.push_back(m.bytes());
        break;
      case 3:
        node.name = m.bytes();
        break;
      case 4:
        node.op_type = m.bytes();
        break;
      case 5:
        node.attributes.push_back(read_attribute(m.bytes(), depth));
        break;
      case 7:
        node.domain = m.bytes();
        break;
      case 8:
        node.overload = m.bytes();
        break;
      default:
        m.skip();
    }
  }
  if (node.op_type.empty()) refuse_invalid(fmt::format("node '{}' has no operator", node.name));
  if (node.domain == "ai.onnx") node.domain = "";
  return node;
}

void read_graph_into(std::string_view message, int depth, GraphDef& graph) {
  if (depth > kMaxGraphDepth) refuse_invalid("graphs are nested more than 32 deep");
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        graph.nodes.push_back(read_node(m.bytes(), depth));
        break;
      case 2:
        graph.name = m.bytes();
        break;
      case 5:
        graph.initializers.push_back(read_tensor_def(m.bytes()));
        break;
      case 11:
        graph.inputs.push_back(read_value(m.bytes()));
        break;
      case 12:
        graph.outputs.push_back(read_value(m.bytes()));
        break;
      case 15:
        graph.sparse_initializers.push_back(m.bytes());
        break;
      default:
        m.skip();
    }
  }
}

GraphDef read_graph(std::string_view message, int depth) {
  GraphDef graph;
  read_graph_into(message, depth, graph);
  return graph;
}

/// An entry of opset_import.
void read_opset(std::string_view message, std::map<std::string_view, int64_t>& opsets) {
  std::string_view domain;
  int64_t version = 0;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        domain = m.bytes();
        break;
      case 2:
        version = m.integer();
        break;
      default:
        m.skip();
    }
  }
  if (domain == "ai.onnx") domain = "";
  opsets[domain] = version;
}

FunctionDef read_function(std::string_view message) {
  FunctionDef function;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        function.name = m.bytes();
        break;
      case 4:
        function.inputs.push_back(m.bytes());
        break;
      case 5:
        function.outputs.push_back(m.bytes());
        break;
      case 6:
        function.attributes.push_back(m.bytes());
        break;
      case 7:
        function.nodes.push_back(read_node(m.bytes(), 0));
        break;
      case 9:
        read_opset(m.bytes(), function.opsets);
        break;
      case 10:
        function.domain = m.bytes();
        break;
      case 11:
        function.attribute_defaults.push_back(read_attribute(m.bytes(), 0));
        break;
      case 13:
        function.overload = m.bytes();
        break;
      default:
        m.skip();
    }
  }
  if (function.domain == "ai.onnx") function.domain = "";
  return function;
}

void read_metadata(std::string_view message, ModelDef& model) {
  std::string_view key, value;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        key = m.bytes();
        break;
      case 2:
        value = m.bytes();
        break;
      default:
        m.skip();
    }
  }
  model.metadata[key] = value;
}

void read_model_fields(std::string_view message, ModelDef& model) {
  bool has_graph = false;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        model.ir_version = m.integer();
        break;
      case 2:
        model.producer_name = m.bytes();
        break;
      case 3:
        model.producer_version = m.bytes();
        break;
      case 4:
        model.domain = m.bytes();
        break;
      case 5:
        model.model_version = m.integer();
        break;
      case 6:
        model.doc = m.bytes();
        break;
      case 7:
        read_graph_into(m.bytes(), 0, model.graph);
        has_graph = true;
        break;
      case 8:
        read_opset(m.bytes(), model.opsets);
        break;
      case 14:
        read_metadata(m.bytes(), model);
        break;
      case 25:
        model.functions.push_back(read_function(m.bytes()));
        break;
      default:
        m.skip();
    }
  }
  if (!has_graph) refuse_invalid("it holds no graph");
}

}  // namespace

ValueDef read_type(std::string_view message) {
  ValueDef value;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        value.kind = ValueDef::Kind::kTensor;
        read_tensor_type(m.bytes(), value);
        break;
      case 4:
        value.kind = ValueDef::Kind::kSequence;
        m.skip();
        break;
      case 9:
        value.kind = ValueDef::Kind::kOptional;
        m.skip();
        break;
      case 5:
      case 7:
      case 8:
        value.kind = ValueDef::Kind::kOther;
        m.skip();
        break;
      default:
        m.skip();
    }
  }
  return value;
}

Result<ModelDef> read_model(MappedFile file, std::string folder) {
  ModelDef model;
  model.owner = std::move(file.owner);
  model.folder = std::move(folder);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (bytes.empty()) return invalid_input("not an ONNX model: the file is empty");
  try {
    read_model_fields(bytes, model);
  } catch (const Refusal& refusal) {
    return invalid_input("not a valid ONNX model: " + refusal.error().message);
  } catch (const protozero::exception& broken) {
    return invalid_input(
        fmt::format("not an ONNX model, or cut short ({} bytes read)", bytes.size()));
  }
  return model;
}

}  // namespace weft::onnx
