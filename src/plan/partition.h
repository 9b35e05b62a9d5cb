#pragma once

#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// Which expressions may share a kernel, before tile programs are built: the partition of each
/// strategy.
struct Partition {
  std::vector<Group> groups;
  std::vector<EdgeDecision> edges;
  Optimality optimality = {};
};

}  // namespace weft
