#include "rewrite/inline_constant_if.h"

#include "rewrite/graph_rebuilder.h"

namespace weft {

namespace {

bool inline_once(Graph& graph) {
  GraphRebuilder rebuild(graph);
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    const HostTensor* condition =
        node.op == GraphOp::kIf ? rebuild.constant(node.operands[0]) : nullptr;
    if (condition == nullptr) {
      rebuild.keep(std::move(node));
      continue;
    }
    const Graph& branch = *node.regions[condition->at_int(0) != 0 ? 0 : 1];
    const std::span<const ValueId> captures = std::span(node.operands).subspan(1);
    rebuild.replace(node, rebuild.add_region(branch, captures, node.origin));
  }
  return rebuild.finish();
}

}  // namespace

bool inline_constant_if(Graph& graph) {
  // Inlining brings a nested `if` together with the constant that it captured: as many rounds as
  // branches nest.
  bool changed = false;
  while (inline_once(graph)) changed = true;
  return rewrite_regions(graph, inline_constant_if) || changed;
}

}  // namespace weft
