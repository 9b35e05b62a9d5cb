#include "import/builder/prune_graph.h"

#include <algorithm>
#include <map>
#include <set>

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
  Pruner(const Graph& from, const std::vector<std::string>& names)
      : from_(from),
        names_(names),
        value_(from.values.size(), kNoValue),
        origin_(from.origins.size(), -1) {}

  Graph run() {
    for (ValueId v : from_.inputs) to_.inputs.push_back(move_value(v));
    const std::vector<bool> needed = find_needed_nodes(from_);
    for (size_t n = 0; n < from_.nodes.size(); ++n) {
      if (needed[n]) move_node(from_.nodes[n]);
    }
    for (ValueId v : from_.outputs) to_.outputs.push_back(value_[static_cast<size_t>(v)]);
    to_.output_names = from_.output_names;
    name_values();
    return std::move(to_);
  }

 private:
  ValueId move_value(ValueId v) {
    value_[static_cast<size_t>(v)] = static_cast<ValueId>(to_.values.size());
    to_.values.push_back(from_.values[static_cast<size_t>(v)]);
    return value_[static_cast<size_t>(v)];
  }

  /// The name, or the name with the first free number behind it.
  std::string unique(const std::string& base) {
    if (taken_.insert(base).second) return base;
    int64_t& next = next_[base];
    std::string candidate;
    do {
      candidate = base + "_" + std::to_string(++next);
    } while (!taken_.insert(candidate).second);
    return candidate;
  }

  void name_values() {
    std::vector<bool> named(to_.values.size(), false);
    const auto name = [&](ValueId v, const std::string& base) {
      const auto at = static_cast<size_t>(v);
      if (named[at]) return;
      named[at] = true;
      to_.values[at].name = unique(base);
    };
    for (ValueId v : to_.inputs) name(v, to_.values[static_cast<size_t>(v)].name);
    for (size_t i = 0; i < to_.outputs.size(); ++i) name(to_.outputs[i], to_.output_names[i]);
    for (size_t v = 0; v < names_.size(); ++v) {
      if (!names_[v].empty() && value_[v] != kNoValue) name(value_[v], names_[v]);
    }
    for (size_t v = 0; v < to_.values.size(); ++v) {
      name(static_cast<ValueId>(v), "v" + std::to_string(v));
    }
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
  const std::vector<std::string>& names_;
  std::set<std::string> taken_;
  std::map<std::string, int64_t> next_;
  Graph to_;
  std::vector<ValueId> value_;
  std::vector<int32_t> origin_;
};

}  // namespace

Graph prune_graph(const Graph& graph, const std::vector<std::string>& names) {
  return Pruner(graph, names).run();
}

}  // namespace weft::onnx
