#pragma once

#include "graph/graph.h"

namespace weft {

/// Products that go into each result of a dot_general or a convolution.
int64_t contraction_depth(const Graph& graph, const Node& node);

}  // namespace weft
