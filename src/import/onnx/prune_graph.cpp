#include "import/onnx/prune_graph.h"

#include <algorithm>

namespace weft::onnx {
namespace {

/// By node: whether an output depends on it.
std::vector<bool> find_needed_nodes(const Graph& graph) {
  std::vector<bool> needed_value(graph.values.size(), false);
  std::vector<bool> needed_node(graph.nodes.size(), false);
  for (ValueId v : graph.outputs) needed_value[static_cast<size_t>(v)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    needed_node[n] = std::any_of(node.results.begin(), node.results.end(),
                                 [&](ValueId v) { return needed_value[static_cast<size_t>(v)]; });
    if (!needed_node[n]) continue;
    for (ValueId v : node.operands) needed_value[static_cast<size_t>(v)] = true;
  }
  return needed_node;
}

/// Moves the needed parts of one graph into another, with new dense ids.
class Pruner {
 public:
  explicit Pruner(const Graph& from)
      : from_(from), value_(from.values.size(), kNoValue), origin_(from.origins.size(), -1) {}

  Graph run() {
    for (ValueId v : from_.inputs) to_.inputs.push_back(move_value(v));
    const std::vector<bool> needed = find_needed_nodes(from_);
    for (size_t n = 0; n < from_.nodes.size(); ++n) {
      if (needed[n]) move_node(from_.nodes[n]);
    }
    for (ValueId v : from_.outputs) to_.outputs.push_back(value_[static_cast<size_t>(v)]);
    to_.output_names = from_.output_names;
    return std::move(to_);
  }

 private:
  ValueId move_value(ValueId v) {
    value_[static_cast<size_t>(v)] = static_cast<ValueId>(to_.values.size());
    to_.values.push_back(from_.values[static_cast<size_t>(v)]);
    return value_[static_cast<size_t>(v)];
  }

  int32_t move_origin(int32_t origin) {
    if (origin < 0) return origin;
    int32_t& moved = origin_[static_cast<size_t>(origin)];
    if (moved < 0) {
      moved = static_cast<int32_t>(to_.origins.size());
      to_.origins.push_back(from_.origins[static_cast<size_t>(origin)]);
    }
    return moved;
  }

  void move_node(const Node& node) {
    Node moved = node;
    for (ValueId& v : moved.operands) v = value_[static_cast<size_t>(v)];
    for (ValueId& v : moved.results) v = move_value(v);
    moved.origin = move_origin(node.origin);
    to_.nodes.push_back(std::move(moved));
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> value_;
  std::vector<int32_t> origin_;
};

}  // namespace

Graph prune_graph(const Graph& graph) { return Pruner(graph).run(); }

}  // namespace weft::onnx
