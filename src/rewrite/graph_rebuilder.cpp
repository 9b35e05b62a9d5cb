#include "rewrite/graph_rebuilder.h"

#include <map>
#include <string>
#include <utility>

namespace weft {

GraphRebuilder::GraphRebuilder(Graph& graph)
    : graph_(graph), forward_(graph.values.size()), definition_(graph.values.size(), -1) {
  for (size_t v = 0; v < forward_.size(); ++v) forward_[v] = static_cast<ValueId>(v);
}

std::vector<Node> GraphRebuilder::take_nodes() { return std::exchange(graph_.nodes, {}); }

void GraphRebuilder::forward_operands(Node& node) const {
  for (ValueId& v : node.operands) v = forwarded(v);
}

void GraphRebuilder::note_results(const Node& node) {
  forward_.resize(graph_.values.size());
  definition_.resize(graph_.values.size(), -1);
  for (ValueId v : node.results) {
    forward_[static_cast<size_t>(v)] = v;
    definition_[static_cast<size_t>(v)] = static_cast<int32_t>(graph_.nodes.size()) - 1;
  }
}

void GraphRebuilder::keep(Node node) {
  graph_.nodes.push_back(std::move(node));
  note_results(graph_.nodes.back());
}

void GraphRebuilder::replace(const Node& node, std::span<const ValueId> values) {
  WEFT_CHECK(node.results.size() == values.size(), "replaced by another number of values");
  for (size_t i = 0; i < values.size(); ++i) replace_result(node.results[i], values[i]);
  changed_ = true;
}

void GraphRebuilder::replace_result(ValueId result, ValueId value) {
  WEFT_CHECK(type(result) == type(value), "replaced by a value of another type: " +
                                              print(type(result)) + " by " + print(type(value)));
  forward_[static_cast<size_t>(result)] = value;
  changed_ = true;
}

ValueId GraphRebuilder::add(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                            int32_t origin, const TensorType& hint) {
  graph_.current_origin = origin;
  Result<ValueId> result = graph_.add1(op, std::move(attrs), std::move(operands), hint);
  WEFT_CHECK(result.ok(), result.error().message);
  note_results(graph_.nodes.back());
  return *result;
}

std::vector<ValueId> GraphRebuilder::add_node(GraphOp op, Attributes attrs,
                                              std::vector<ValueId> operands,
                                              std::vector<std::shared_ptr<const Graph>> regions,
                                              int32_t origin) {
  graph_.current_origin = origin;
  auto results = graph_.add(op, std::move(attrs), std::move(operands), {}, std::move(regions));
  WEFT_CHECK(results.ok(), results.error().message);
  note_results(graph_.nodes.back());
  return *results;
}

ValueId GraphRebuilder::add_constant(HostTensor value, int32_t origin) {
  return add(GraphOp::kConstant, ConstantAttrs{std::move(value)}, {}, origin);
}

std::vector<ValueId> GraphRebuilder::add_region(const Graph& region,
                                                std::span<const ValueId> arguments,
                                                int32_t origin) {
  WEFT_CHECK(arguments.size() == region.inputs.size(), "arguments of a region");
  std::vector<ValueId> here(region.values.size(), kNoValue);
  for (size_t i = 0; i < arguments.size(); ++i) {
    here[static_cast<size_t>(region.inputs[i])] = arguments[i];
  }
  std::map<int32_t, int32_t> origins;
  const auto origin_here = [&](int32_t inner) {
    if (inner < 0) return origin;
    const auto next = static_cast<int32_t>(graph_.origins.size());
    const auto [entry, fresh] = origins.try_emplace(inner, next);
    if (fresh) graph_.origins.push_back(region.origins[static_cast<size_t>(inner)]);
    return entry->second;
  };
  for (const Node& inner : region.nodes) {
    Node node = inner;
    node.origin = origin_here(inner.origin);
    for (ValueId& v : node.operands) v = here[static_cast<size_t>(v)];
    for (ValueId& v : node.results) {
      const Value& value = region.values[static_cast<size_t>(v)];
      const ValueId id = graph_.new_value(value.name, value.type);
      here[static_cast<size_t>(v)] = id;
      v = id;
    }
    keep(std::move(node));
  }
  std::vector<ValueId> outputs;
  for (ValueId v : region.outputs) outputs.push_back(here[static_cast<size_t>(v)]);
  return outputs;
}

const Node* GraphRebuilder::definition(ValueId v) const {
  const int32_t n = definition_[static_cast<size_t>(v)];
  return n < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(n)];
}

const Node* GraphRebuilder::made_by(ValueId v, GraphOp op) const {
  const Node* node = definition(v);
  return node != nullptr && node->op == op ? node : nullptr;
}

const Node* GraphRebuilder::made_by(ValueId v, ScalarOp op) const {
  const Node* node = made_by(v, GraphOp::kElementwise);
  return node != nullptr && std::get<ElementwiseAttrs>(node->attrs).op == op ? node : nullptr;
}

std::optional<HostTensor> GraphRebuilder::uniform_element(ValueId v) const {
  if (const Node* node = made_by(v, GraphOp::kBroadcast)) v = node->operands[0];
  const HostTensor* value = constant(v);
  if (value == nullptr || value->size() != 1) return std::nullopt;
  return value->reshaped({});
}

const HostTensor* GraphRebuilder::constant(ValueId v) const {
  const Node* node = definition(v);
  if (node == nullptr || node->op != GraphOp::kConstant) return nullptr;
  return &std::get<ConstantAttrs>(node->attrs).value;
}

bool GraphRebuilder::finish() {
  graph_.current_origin = -1;
  if (!changed_) return false;
  for (ValueId& v : graph_.outputs) v = forwarded(v);
  drop_unmade_values(graph_);
  return true;
}

void drop_unmade_values(Graph& graph) {
  std::vector<bool> made(graph.values.size());
  for (ValueId v : graph.inputs) made[static_cast<size_t>(v)] = true;
  for (const Node& node : graph.nodes) {
    for (ValueId v : node.results) made[static_cast<size_t>(v)] = true;
  }
  Graph dense;  // a new object, because a graph remembers the names that its values ever had
  std::vector<ValueId> renumbered(graph.values.size(), kNoValue);
  for (size_t v = 0; v < made.size(); ++v) {
    if (!made[v]) continue;
    renumbered[v] = static_cast<ValueId>(dense.values.size());
    dense.values.push_back(std::move(graph.values[v]));
  }
  const auto renumber = [&](std::vector<ValueId>& values) {
    for (ValueId& v : values) v = renumbered[static_cast<size_t>(v)];
  };
  dense.nodes = std::move(graph.nodes);
  for (Node& node : dense.nodes) {
    renumber(node.operands);
    renumber(node.results);
  }
  dense.inputs = std::move(graph.inputs);
  dense.outputs = std::move(graph.outputs);
  renumber(dense.inputs);
  renumber(dense.outputs);
  dense.output_names = std::move(graph.output_names);
  dense.origins = std::move(graph.origins);
  graph = std::move(dense);
}

bool rewrite_regions(Graph& graph, const std::function<bool(Graph&)>& pass) {
  std::map<std::shared_ptr<const Graph>, std::shared_ptr<const Graph>> rewritten;
  bool changed = false;
  for (Node& node : graph.nodes) {
    for (std::shared_ptr<const Graph>& region : node.regions) {
      const auto [entry, fresh] = rewritten.try_emplace(region, region);
      if (fresh) {
        auto copy = std::make_shared<Graph>(*region);
        if (pass(*copy)) {
          entry->second = std::move(copy);
          changed = true;
        }
      }
      region = entry->second;
    }
  }
  return changed;
}

}  // namespace weft
