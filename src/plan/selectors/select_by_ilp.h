#pragma once

#include <cstdint>
#include <vector>

#include "plan/fusion_graph.h"
#include "plan/pattern.h"
#include "solver/integer_program.h"
#include "support/result.h"

namespace weft {

/// Disjoint patterns, with what is known of how good they are.
struct Selection {
  std::vector<Pattern> patterns;
  double gain_us = 0;
  double bound_us = 0;          ///< no disjoint candidates without a cycle gain more
  int64_t cuts = 0;             ///< cycles that were cut
  IntegerProgram program = {};  ///< of a column for each candidate, with the rows of the cuts
};

/// When the search is given up. Counts, so that it is deterministic.
struct SelectionLimits {
  int64_t most_nodes = 2000;  ///< of each branch and bound
  int64_t most_cuts = 50;
};

/// Of the candidates those whose gains sum up to most, each group in one at most: an integer
/// program of a variable for each candidate (FusionStitching 2019 §4.1). Where those that are
/// chosen wait for each other, a row forbids that cycle and the program is solved again.
///
/// Error (kMissingDevice): there is no solver.
Result<Selection> select_by_ilp(const FusionGraph& graph, const std::vector<Pattern>& candidates,
                                const SelectionLimits& limits = {});

/// Of disjoint patterns some that wait for each other in a ring, by their numbers; empty: none do.
std::vector<int> find_cycle(const FusionGraph& graph, const std::vector<Pattern>& patterns);

}  // namespace weft
