#pragma once

#include <vector>

#include "plan/fusion_graph.h"
#include "plan/pattern.h"

namespace weft {

/// Memory-intensive subgraphs by breadth-first search, by their first group. A
/// search begins at the first group that none has taken, and goes on to what its groups read, what
/// reads them, and what reads a tensor that they read, as long as one kernel can hold all of it
/// without waiting for itself. Products and opaque steps end it. What could not join is asked again
/// when more has joined, since it may have stood on a path that is then inside. Subgraphs are
/// disjoint; those that gain are patterns.
///
/// Unlike patterns that begin at one expression and reach on through its readers, a subgraph may
/// begin in several places: a = f(x), b = g(z), y = a + b; or reads of one input beside each other.
std::vector<std::vector<Pattern>> find_subgraphs(const TensorProgram& program,
                                                 const FusionGraph& graph, const PatternRule& rule);

}  // namespace weft
