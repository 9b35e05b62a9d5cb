#include <set>
#include <unordered_set>

#include "graph/attribute_fields.h"
#include "graph/graph.h"

namespace weft {
namespace {

class Verifier {
 public:
  Status run(const Graph& graph, int depth) {
    // Regions are shared: without the set, nested sharing would be verified exponentially often.
    if (!seen_.insert(&graph).second) return {};
    if (depth > kMaxRegionDepth) return invalid_input("regions nest too deeply");
    WEFT_RETURN_IF_ERROR(verify_values(graph));
    std::vector<bool> defined(graph.values.size());
    for (ValueId v : graph.inputs) WEFT_RETURN_IF_ERROR(define(graph, v, "an input", defined));
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      WEFT_RETURN_IF_ERROR(verify_node(graph, n, depth, defined));
    }
    for (size_t v = 0; v < defined.size(); ++v) {
      if (!defined[v])
        return invalid_input("value " + graph.values[v].name + " is made by nothing");
    }
    return verify_outputs(graph);
  }

 private:
  static bool in_range(const Graph& graph, ValueId v) {
    return v >= 0 && static_cast<size_t>(v) < graph.values.size();
  }

  static Status verify_values(const Graph& graph) {
    std::unordered_set<std::string_view> names;
    for (const Value& value : graph.values) {
      if (value.name.empty()) return invalid_input("a value has no name");
      if (!names.insert(value.name).second) {
        return invalid_input("two values are called " + value.name);
      }
      const std::optional<int64_t> bytes = checked_byte_size(value.type.dtype, value.type.shape);
      if (!bytes || *bytes > kMaxTensorBytes || value.type.shape.size() > kMaxRank) {
        return invalid_input("value " + value.name +
                             " is too large or has a negative extent: " + print(value.type));
      }
    }
    return {};
  }

  static Status define(const Graph& graph, ValueId v, const std::string& by,
                       std::vector<bool>& defined) {
    if (!in_range(graph, v)) return invalid_input(by + " is value " + std::to_string(v));
    if (defined[static_cast<size_t>(v)]) {
      return invalid_input("value " + graph.values[static_cast<size_t>(v)].name +
                           " is made twice, also by " + by);
    }
    defined[static_cast<size_t>(v)] = true;
    return {};
  }

  static std::string label(const Graph& graph, size_t n) {
    const Node& node = graph.nodes[n];
    std::string text = "node " + std::to_string(n) + " " + std::string(graph_op_name(node.op));
    if (!node.results.empty() && in_range(graph, node.results[0])) {
      text += " (" + graph.values[static_cast<size_t>(node.results[0])].name + ")";
    }
    return text;
  }

  Status verify_node(const Graph& graph, size_t n, int depth, std::vector<bool>& defined) {
    const Node& node = graph.nodes[n];
    std::vector<TensorType> operands;
    if (!attributes_match(node.op, node.attrs)) {
      return invalid_input(label(graph, n) + " has attributes of another op");
    }
    if (node.origin < -1 || node.origin >= static_cast<int32_t>(graph.origins.size())) {
      return invalid_input(label(graph, n) + " has no such origin");
    }
    for (ValueId v : node.operands) {
      if (!in_range(graph, v) || !defined[static_cast<size_t>(v)]) {
        return invalid_input(label(graph, n) + " reads value " + std::to_string(v) +
                             " before it is made");
      }
      operands.push_back(graph.type(v));
    }
    for (const auto& region : node.regions) {
      if (region == nullptr) return invalid_input(label(graph, n) + " lacks a region");
      if (Status status = run(*region, depth + 1); !status.ok()) {
        return invalid_input("in a region of " + label(graph, n) + ": " + status.error().message);
      }
    }
    for (ValueId v : node.results) {
      WEFT_RETURN_IF_ERROR(define(graph, v, label(graph, n), defined));
    }
    return verify_types(graph, n, operands);
  }

  static Status verify_types(const Graph& graph, size_t n,
                             const std::vector<TensorType>& operands) {
    const Node& node = graph.nodes[n];
    const TensorType hint = node.results.empty() ? TensorType{} : graph.type(node.results[0]);
    Result<std::vector<TensorType>> types =
        infer_types(node.op, node.attrs, operands, hint, node.regions);
    if (!types.ok()) return invalid_input(label(graph, n) + ": " + types.error().message);
    if (types->size() != node.results.size()) {
      return invalid_input(label(graph, n) + " has " + std::to_string(node.results.size()) +
                           " results, not " + std::to_string(types->size()));
    }
    for (size_t i = 0; i < types->size(); ++i) {
      if (graph.type(node.results[i]) != (*types)[i]) {
        return invalid_input(label(graph, n) + ": result " + std::to_string(i) + " is " +
                             print(graph.type(node.results[i])) + ", not " + print((*types)[i]));
      }
    }
    return {};
  }

  static Status verify_outputs(const Graph& graph) {
    if (graph.outputs.size() != graph.output_names.size()) {
      return invalid_input("outputs and output names differ in number");
    }
    std::unordered_set<std::string_view> names;
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      if (!in_range(graph, graph.outputs[i])) {
        return invalid_input("output " + graph.output_names[i] + " is no value");
      }
      if (!names.insert(graph.output_names[i]).second) {
        return invalid_input("two outputs are called " + graph.output_names[i]);
      }
    }
    return {};
  }

  std::set<const Graph*> seen_;
};

}  // namespace

Status verify_graph(const Graph& graph) { return Verifier().run(graph, 0); }

}  // namespace weft
