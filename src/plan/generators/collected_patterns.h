#pragma once

#include <set>
#include <vector>

#include "plan/fusion_graph.h"
#include "plan/pattern.h"

namespace weft {

/// Patterns of a graph without merges that a rule allows and that gain, each once.
class CollectedPatterns {
 public:
  CollectedPatterns(const FusionGraph& graph, const PatternRule& rule)
      : graph_(graph), rule_(rule) {}

  /// Whether the groups, ascending, are one of the patterns, or become one.
  bool add(const std::vector<int>& groups);

  const std::vector<Pattern>& all() const { return all_; }

 private:
  const FusionGraph& graph_;
  const PatternRule& rule_;
  std::set<std::vector<int>> known_, refused_;
  std::vector<Pattern> all_;
};

}  // namespace weft
