#pragma once

#include "graph/graph.h"
#include "runtime/program.h"
#include "support/result.h"

namespace weft {

/// The host operation of a node that no kernel computes, without its buffers. kInternal for a node
/// that is none.
Result<HostStep> host_operation(const Node& node);

}  // namespace weft
