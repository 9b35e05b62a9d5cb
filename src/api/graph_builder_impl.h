#pragma once

#include <vector>

#include "import/recorded/recorded_graph.h"
#include "weft/graph_builder.h"

#pragma GCC visibility push(hidden)  // no part of the interface, though in its namespace

namespace weft_v1 {

struct GraphBuilder::Impl {
  weft::RecordedGraph graph;
};

/// What the tensors are in the graph that is being made.
inline std::vector<weft::ValueId> at(weft::RecordedGraph::Replay& r,
                                     const std::vector<Tensor>& tensors) {
  std::vector<weft::ValueId> ids;
  for (const Tensor& tensor : tensors) ids.push_back(r.at(tensor.id));
  return ids;
}

}  // namespace weft_v1

#pragma GCC visibility pop
