#pragma once

#include "import/recorded/recorded_graph.h"
#include "weft/graph_builder.h"

#pragma GCC visibility push(hidden)  // no part of the interface, though in its namespace

namespace weft_v1 {

struct GraphBuilder::Impl {
  weft::RecordedGraph graph;
};

}  // namespace weft_v1

#pragma GCC visibility pop
