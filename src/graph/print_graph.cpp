#include <cstring>

#include "graph/attribute_fields.h"
#include "graph/graph.h"
#include "graph/graph_text.h"
#include "support/hash.h"

namespace weft {
namespace {

/// All elements have the same bits.
bool is_uniform(const HostTensor& tensor) {
  const auto width = static_cast<size_t>(byte_size(tensor.dtype()));
  const auto bytes = static_cast<size_t>(tensor.bytes());
  return bytes > width && std::memcmp(tensor.raw(), tensor.raw() + width, bytes - width) == 0;
}

class Printer {
 public:
  explicit Printer(const PrintGraphOptions& options) : options_(options) {}

  std::string take() { return std::move(text_); }

  void print_graph(const Graph& graph, const std::string& indent) {
    text_ += '(';
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (i > 0) text_ += ", ";
      text_ += name(graph, graph.inputs[i]) + ": " + print(graph.type(graph.inputs[i]));
    }
    text_ += ") {\n";
    for (const Node& node : graph.nodes) print_node(graph, node, indent + "  ");
    text_ += indent + "} -> (";
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      if (i > 0) text_ += ", ";
      const std::string value = name(graph, graph.outputs[i]);
      const std::string known_as = print_name(graph.output_names[i]);
      if (known_as != value) text_ += known_as + "=";
      text_ += value;
    }
    text_ += ')';
  }

 private:
  static std::string name(const Graph& graph, ValueId v) {
    return print_name(graph.values[static_cast<size_t>(v)].name);
  }

  void print_node(const Graph& graph, const Node& node, const std::string& indent) {
    text_ += indent;
    for (size_t i = 0; i < node.results.size(); ++i) {
      text_ += (i > 0 ? ", " : "") + name(graph, node.results[i]);
    }
    text_ += " = ";
    const auto* elementwise = std::get_if<ElementwiseAttrs>(&node.attrs);
    text_ += elementwise ? scalar_op_name(elementwise->op) : graph_op_name(node.op);
    const char* separator = " ";
    for (ValueId v : node.operands) {
      text_ += separator + name(graph, v);
      separator = ", ";
    }
    if (const auto* constant = std::get_if<ConstantAttrs>(&node.attrs)) {
      print_constant(constant->value);
    }
    for (const std::string& field : print_attributes(node.attrs)) {
      text_ += separator + field;
      separator = ", ";
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      text_ += (i == 0 ? " : " : ", ") + print(graph.type(node.results[i]));
    }
    if (options_.origins && node.origin >= 0) {
      const Origin& origin = graph.origins[static_cast<size_t>(node.origin)];
      text_ += " @ " + print_name(origin.name) + " " + print_name(origin.op_type);
    }
    for (const auto& region : node.regions) {
      text_ += "\n" + indent + "  region ";
      print_graph(*region, indent + "  ");
    }
    text_ += '\n';
  }

  void print_constant(const HostTensor& value) {
    if (value.shape().empty()) {
      text_ += " " + print_element(value, 0);
    } else if (value.bytes() <= kMaxSplatBytes && is_uniform(value)) {
      text_ += " splat " + print_element(value, 0);
    } else if (value.size() > options_.max_inline_elements) {
      text_ += " #" + to_hex(content_hash(value));
    } else {
      text_ += " {";
      for (int64_t i = 0; i < value.size(); ++i) {
        text_ += (i > 0 ? ", " : "") + print_element(value, i);
      }
      text_ += '}';
    }
  }

  const PrintGraphOptions& options_;
  std::string text_;
};

}  // namespace

std::string print(const Graph& graph, const PrintGraphOptions& options) {
  Printer printer(options);
  printer.print_graph(graph, "");
  return printer.take();
}

}  // namespace weft
