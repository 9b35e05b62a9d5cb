#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace weft {

/// The common machinery of the passes: walks the nodes of a graph in order and builds the list
/// anew.
///
///     GraphRebuilder rebuild(graph);
///     for (Node& node : rebuild.take_nodes()) {
///       rebuild.forward_operands(node);
///       if (…) rebuild.replace(node, {value});   // the node goes, its results become other values
///       else rebuild.keep(std::move(node));
///     }
///     return rebuild.finish();
///
/// Replaced nodes vanish with their values; ids are dense again after finish().
class GraphRebuilder {
 public:
  explicit GraphRebuilder(Graph& graph);

  std::vector<Node> take_nodes();
  ValueId forwarded(ValueId v) const { return forward_[static_cast<size_t>(v)]; }
  void forward_operands(Node& node) const;

  void keep(Node node);
  /// Each result of `node` becomes the value in its place, which has the same type.
  void replace(const Node& node, std::span<const ValueId> values);
  /// One result of a node that stays without it.
  void replace_result(ValueId result, ValueId value);
  /// A new node; wrong types are a defect of the pass. `origin` is that of the node it stands for.
  ValueId add(GraphOp op, Attributes attrs, std::vector<ValueId> operands, int32_t origin,
              const TensorType& hint = {});
  ValueId add_constant(HostTensor value, int32_t origin);
  /// A new node of several results or with regions.
  std::vector<ValueId> add_node(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                                std::vector<std::shared_ptr<const Graph>> regions, int32_t origin);
  /// The nodes of `region` on the given arguments; returns its outputs.
  std::vector<ValueId> add_region(const Graph& region, std::span<const ValueId> arguments,
                                  int32_t origin);

  Graph& graph() { return graph_; }
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  /// The node in the new list that makes `v`; null for an input.
  const Node* definition(ValueId v) const;
  /// That node when it is of this op, else null. Valid until the next node is made.
  const Node* made_by(ValueId v, GraphOp op) const;
  const Node* made_by(ValueId v, ScalarOp op) const;
  /// The constant that `v` is, or null.
  const HostTensor* constant(ValueId v) const;
  /// The one value that all elements of `v` have, as a scalar: a constant of one element, broadcast
  /// or not.
  std::optional<HostTensor> uniform_element(ValueId v) const;

  /// Rewires the outputs and renumbers what is left; returns whether anything was replaced.
  bool finish();

 private:
  void note_results(const Node& node);

  Graph& graph_;
  std::vector<ValueId> forward_;
  std::vector<int32_t> definition_;
  bool changed_ = false;
};

/// Drops the values that no input and no node makes; the others keep their order.
void drop_unmade_values(Graph& graph);

/// Applies `pass` to a copy of each region of the graph's nodes; regions that it changed take the
/// place of the old ones. A region that several nodes share stays shared.
bool rewrite_regions(Graph& graph, const std::function<bool(Graph&)>& pass);

}  // namespace weft
