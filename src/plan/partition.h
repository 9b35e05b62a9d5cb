#pragma once

#include <map>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// Which expressions may share a kernel, before tile programs are built: the partition of each
/// strategy.
struct Partition {
  std::vector<Group> groups;
  std::vector<EdgeDecision> edges;
  Optimality optimality = {};
  /// By group: how it is composed, where that is not what it would be scheduled as.
  std::map<size_t, Composition> composed = {};
};

}  // namespace weft
