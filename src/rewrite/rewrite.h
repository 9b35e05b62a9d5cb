#pragma once

#include "graph/graph.h"

namespace weft {

/// Graph-to-graph passes; each has a header and source named after it (fold_constants.h, …). This
/// is their common form: the pass changes the graph in place and says whether it changed anything.
using GraphPass = bool (*)(Graph&);

}  // namespace weft
