#include "rewrite/simplify_graph.h"

#include <utility>

#include "rewrite/simplifier.h"

namespace weft {

namespace {

/// Of floats to integers.
bool quantises(const Graph& graph, const Node& node) {
  const auto* applied = std::get_if<ElementwiseAttrs>(&node.attrs);
  return applied != nullptr && applied->op == ScalarOp::kConvert &&
         is_integer(graph.type(node.results[0]).dtype) &&
         is_float(graph.type(node.operands[0]).dtype);
}

}  // namespace

Simplifier::Simplifier(Graph& graph) : graph_(graph), rebuild_(graph), reads_(graph.values.size()) {
  for (const Node& node : graph.nodes) {
    for (ValueId v : node.operands) ++reads_[static_cast<size_t>(v)];
  }
  for (ValueId v : graph.outputs) ++reads_[static_cast<size_t>(v)];
}

bool Simplifier::run() {
  for (Node& node : rebuild_.take_nodes()) {
    rebuild_.forward_operands(node);
    if (node.results.size() == 1 && node.regions.empty() && node.op != GraphOp::kConstant) {
      const CandidateNode candidate{node.op, node.attrs, node.operands, type(node.results[0]),
                                    node.origin};
      const size_t before = graph_.values.size();
      if (const Rewrite value = simplify(candidate)) {
        // A conversion of another value is the conversion that it stands for.
        if (quantises(graph_, node) && static_cast<size_t>(*value) >= before)
          std::swap(graph_.values[static_cast<size_t>(*value)].name,
                    graph_.values[static_cast<size_t>(node.results[0])].name);
        rebuild_.replace(node, {&*value, 1});
        continue;
      }
    }
    rebuild_.keep(std::move(node));
  }
  return rebuild_.finish();
}

ValueId Simplifier::make(CandidateNode candidate) {
  if (const Rewrite value = simplify(candidate)) return *value;
  const ValueId result =
      rebuild_.add(candidate.op, std::move(candidate.attrs), std::move(candidate.operands),
                   candidate.origin, candidate.type);
  WEFT_CHECK(type(result) == candidate.type, "a rule expected another type");
  return result;
}

Simplifier::Rewrite Simplifier::simplify(const CandidateNode& c) {
  switch (c.op) {
    case GraphOp::kElementwise:
      return simplify_elementwise(c);
    case GraphOp::kBroadcast:
      return simplify_broadcast(c);
    case GraphOp::kReshape:
      return simplify_reshape(c);
    case GraphOp::kTranspose:
      return simplify_transpose(c);
    case GraphOp::kSlice:
      return simplify_slice(c);
    case GraphOp::kPad:
      return simplify_pad(c);
    case GraphOp::kConcat:
      return simplify_concat(c);
    case GraphOp::kGather:
      return simplify_gather(c);
    case GraphOp::kScatterNd:
    case GraphOp::kScatterElements:
      return simplify_scatter(c);
    case GraphOp::kReduce:
      return simplify_reduce(c);
    default:
      return std::nullopt;
  }
}

std::optional<ValueId> Simplifier::broadcast_scalar(ValueId v) const {
  const Node* node = rebuild_.made_by(v, GraphOp::kBroadcast);
  if (node == nullptr || !shape(node->operands[0]).empty()) return std::nullopt;
  return node->operands[0];
}

bool Simplifier::is_read_once(ValueId v) const {
  return static_cast<size_t>(v) < reads_.size() && reads_[static_cast<size_t>(v)] == 1;
}

bool simplify_graph(Graph& graph) {
  const bool regions_changed = rewrite_regions(graph, simplify_graph);
  return Simplifier(graph).run() || regions_changed;
}

}  // namespace weft
