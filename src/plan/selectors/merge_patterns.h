#pragma once

#include <vector>

#include "plan/fusion_graph.h"
#include "plan/pattern.h"

namespace weft {

/// Makes a group of each pattern, unless that would wait for itself among the groups that are there
/// by then: each pattern of a set may be convex and the set have a cycle all the same. Returns
/// those that became groups.
///
/// Requires: disjoint patterns of a graph without merges.
std::vector<Pattern> merge_patterns(const std::vector<Pattern>& patterns, FusionGraph& graph);

/// Remote fusion: merges groups of one shape that hand each other nothing, or what no edge merged,
/// where the reduction of patterns for a virtual producer of them finds a gain. They are looked at
/// in the order of their ranks, a few at a time.
void merge_remote(const TensorProgram& program, const PatternRule& rule, size_t top,
                  FusionGraph& graph);

}  // namespace weft
