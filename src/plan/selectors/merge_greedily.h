#pragma once

#include <functional>
#include <optional>

#include "group/two_ways.h"
#include "plan/fusion_graph.h"
#include "plan/partition.h"
#include "plan/pattern.h"

namespace weft {

/// What a greedy planner asks about groups.
struct FusionRule {
  /// Legality: may these expressions be one kernel?
  std::function<Decision(const Group& merged)> legal;
  /// Profit: should these two?
  std::function<Decision(const Group& a, const Group& b, const Group& merged)> profitable;
  /// Legality of groups that hand each other nothing and read a tensor both; none: they stay apart.
  std::function<Decision(const Group& merged)> legal_beside = nullptr;
  /// By what readers of a tensor are paired for that; nothing for those that it is not asked of.
  /// Goes with legal_beside.
  std::function<std::optional<ReducedSizes>(const Group& group)> reduced_sizes = nullptr;
  /// Merges more, before groups compose; none: nothing more merges.
  std::function<void(FusionGraph& graph)> merges_more = nullptr;
  /// Whether two groups that a read joins and that stayed apart should be blocks of stages; none:
  /// they stay apart. Why not is said behind the reason that was given before.
  std::function<Decision(const Group& a, const Group& b, const Group& merged)> composes = nullptr;
};

/// Walks the edges in step order; where the rule allows the union of two groups, they merge.
/// Records a verdict for every edge between two expressions. Then groups that read the same tensor
/// merge where `legal_beside` allows it, and groups along the edges that are left where they
/// compose.
Partition merge_greedily(const TensorProgram& program, const FusionRule& rule);
/// The same from the groups of a graph on, some of which `patterns` became.
Partition merge_greedily(const TensorProgram& program, const FusionRule& rule, FusionGraph graph,
                         const std::vector<Pattern>& patterns);

}  // namespace weft
