#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft::onnx {

/// The graph without the nodes, values and origins that no output needs. Inputs stay, in order,
/// used or not.
///
/// Importing leaves many behind: constants that folded away, shape arithmetic, outputs of nodes
/// that nobody reads.
Graph prune_graph(const Graph& graph, const std::vector<std::string>& names);

}  // namespace weft::onnx
