#include "graph/contraction_depth.h"

#include <algorithm>

namespace weft {

int64_t contraction_depth(const Graph& graph, const Node& node) {
  int64_t depth = 1;
  if (node.op == GraphOp::kConvolution) {
    const Shape& weights = graph.type(node.operands[1]).shape;
    for (size_t d = 1; d < weights.size(); ++d) depth *= std::max<int64_t>(1, weights[d]);
    return depth;
  }
  const Shape& left = graph.type(node.operands[0]).shape;
  for (const int64_t axis : std::get<DotAttrs>(node.attrs).lhs_contract)
    depth *= std::max<int64_t>(1, left[static_cast<size_t>(axis)]);
  return depth;
}

}  // namespace weft
