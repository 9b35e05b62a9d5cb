#include "import/onnx/function_attributes.h"

#include <map>

namespace weft::onnx {
namespace {

using Bindings = std::map<std::string_view, const Attribute*>;

bool refers(const std::vector<NodeDef>& nodes) {
  for (const NodeDef& node : nodes) {
    for (const Attribute& attribute : node.attributes) {
      if (!attribute.ref_name.empty()) return true;
      if (attribute.g != nullptr && refers(attribute.g->nodes)) return true;
    }
  }
  return false;
}

NodeDef bind_node(const NodeDef& node, const Bindings& bindings) {
  NodeDef bound = node;
  bound.attributes.clear();
  for (const Attribute& attribute : node.attributes) {
    Attribute copy = attribute;
    if (!attribute.ref_name.empty()) {
      const auto found = bindings.find(attribute.ref_name);
      if (found == bindings.end()) continue;
      copy = *found->second;
      copy.name = attribute.name;
    } else if (attribute.g != nullptr && refers(attribute.g->nodes)) {
      auto graph = std::make_shared<GraphDef>(*attribute.g);
      for (NodeDef& inner : graph->nodes) inner = bind_node(inner, bindings);
      copy.g = std::move(graph);
    }
    bound.attributes.push_back(std::move(copy));
  }
  return bound;
}

}  // namespace

std::vector<NodeDef> bind_attributes(const FunctionDef& function, const NodeDef& call) {
  Bindings bindings;
  for (const Attribute& attribute : function.attribute_defaults) {
    bindings[attribute.name] = &attribute;
  }
  for (const Attribute& attribute : call.attributes) bindings[attribute.name] = &attribute;
  std::vector<NodeDef> nodes;
  for (const NodeDef& node : function.nodes) nodes.push_back(bind_node(node, bindings));
  return nodes;
}

}  // namespace weft::onnx
