#pragma once

#include <vector>

#include "plan/fusion_graph.h"

namespace weft {

/// Chains of two to four contractions: for each that reduces what others made, those with all that
/// lies on paths between the first and the last, and the element-wise readers of what comes out as
/// far as they join without a cycle, with what these need besides of what the first one made
/// (MCFuser §V-B, the partitioner; anything bound by memory may lie between). The longest first,
/// then fewer contractions. So are those of one contraction, and reductions of its results of which
/// one depends on another (log-sum-exp), or is a position of the best. Each is convex and a group
/// of steps of `graph`, ascending.
std::vector<std::vector<int>> chains_of(const TensorProgram& program, const FusionGraph& graph);

}  // namespace weft
