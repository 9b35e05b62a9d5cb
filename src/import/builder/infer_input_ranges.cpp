#include "import/builder/infer_input_ranges.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft::onnx {
namespace {

/// Follows a value back through what leaves its elements alone.
class SourceFinder {
 public:
  explicit SourceFinder(const Graph& graph) : graph_(graph), uses_(use_def(graph)) {}

  /// The graph inputs among the sources of v.
  std::vector<ValueId> inputs_behind(ValueId v) const {
    std::vector<ValueId> found, todo{v};
    std::set<ValueId> seen{v};
    while (!todo.empty()) {
      const ValueId at = todo.back();
      todo.pop_back();
      const int32_t n = uses_.def[static_cast<size_t>(at)];
      if (n < 0) {
        found.push_back(at);
        continue;
      }
      for (ValueId source : sources(graph_.node(n))) {
        if (seen.insert(source).second) todo.push_back(source);
      }
    }
    return found;
  }

 private:
  std::vector<ValueId> sources(const Node& node) const {
    switch (node.op) {
      case GraphOp::kReshape:
      case GraphOp::kBroadcast:
      case GraphOp::kTranspose:
      case GraphOp::kSlice:
        return {node.operands[0]};
      case GraphOp::kConcat:
        return node.operands;
      case GraphOp::kElementwise:
        return elementwise_sources(node);
      default:
        return {};
    }
  }

  std::vector<ValueId> elementwise_sources(const Node& node) const {
    const ScalarOp op = std::get<ElementwiseAttrs>(node.attrs).op;
    if (op == ScalarOp::kConvert) return {node.operands[0]};
    // select(i < 0, i + n, i): the last operand is the index itself.
    if (op == ScalarOp::kSelect) return {node.operands[2]};
    return {};
  }

  const Graph& graph_;
  UseDef uses_;
};

/// The smallest extent that the indices of the node select from; nullopt when the node has no
/// indices.
std::optional<int64_t> indexed_extent(const Graph& graph, const Node& node) {
  const auto extent = [&](int64_t axis) {
    return graph.type(node.operands[0]).shape[static_cast<size_t>(axis)];
  };
  switch (node.op) {
    case GraphOp::kGather:
      return extent(std::get<GatherAttrs>(node.attrs).axis);
    case GraphOp::kGatherElements:
      return extent(std::get<AxisAttrs>(node.attrs).axis);
    case GraphOp::kScatterElements:
      return extent(std::get<ScatterAttrs>(node.attrs).axis);
    case GraphOp::kGatherNd:
    case GraphOp::kScatterNd: {
      const int64_t batch =
          node.op == GraphOp::kGatherNd ? std::get<GatherNdAttrs>(node.attrs).batch_dims : 0;
      const int64_t depth = graph.type(node.operands[1]).shape.back();
      std::optional<int64_t> least;
      for (int64_t k = 0; k < depth; ++k) {
        least = least ? std::min(*least, extent(batch + k)) : extent(batch + k);
      }
      return least;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

void infer_input_ranges(const Graph& graph, std::vector<ImportedInput>& inputs) {
  const SourceFinder finder(graph);
  std::map<ValueId, int64_t> least;
  for (const Node& node : graph.nodes) {
    const std::optional<int64_t> extent = indexed_extent(graph, node);
    if (!extent) continue;
    for (ValueId input : finder.inputs_behind(node.operands[1])) {
      const auto [found, fresh] = least.emplace(input, *extent);
      if (!fresh) found->second = std::min(found->second, *extent);
    }
  }
  for (ImportedInput& input : inputs) {
    if (input.graph_input < 0 || !is_integer(input.type.dtype)) continue;
    const auto found = least.find(graph.inputs[static_cast<size_t>(input.graph_input)]);
    if (found == least.end() || found->second < 1) continue;
    input.range = Interval{0, found->second - 1};
  }
}

}  // namespace weft::onnx
