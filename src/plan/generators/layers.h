#pragma once

#include <vector>

#include "plan/fusion_graph.h"

namespace weft {

/// Spans of a graph's groups, by id: 0 where nothing waits for a group, else one more than the
/// largest of those that wait for it (FusionStitching 2018 §3.1, work and span). Groups of one span
/// are a layer; none waits for another. The largest span is the length of the critical path. -1:
/// the id is of no group.
std::vector<int> spans_of(const FusionGraph& graph);

/// The groups by span, ascending by id.
std::vector<std::vector<int>> layers_of(const std::vector<int>& spans);

}  // namespace weft
