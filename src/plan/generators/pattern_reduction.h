#pragma once

#include <vector>

#include "plan/fusion_graph.h"
#include "plan/pattern.h"

namespace weft {

/// Candidates by group of `graph`: those that begin at it and reach on through its readers, at most
/// `top` with a gain, best first (FusionStitching 2021 §5.2, approximate dynamic programming in
/// post-order). Each is convex, legal and has two groups or more.
///
/// A group's readers are cut into two halves, again and again until there are two or fewer. Those
/// of a half come with each combination of their own best candidates, and the `top` best of these
/// go up. There a candidate is one half's or a union of one of each (the paper's text and its
/// figure).
std::vector<std::vector<Pattern>> reduce_patterns(const FusionGraph& graph, const PatternRule& rule,
                                                  size_t top);

/// The best set of `groups`, which need have nothing to do with each other, that gains: the same
/// reduction for a virtual group that all of them read (remote fusion). Empty: none gains.
Pattern reduce_remote(const FusionGraph& graph, const PatternRule& rule, size_t top,
                      const std::vector<int>& groups);

}  // namespace weft
