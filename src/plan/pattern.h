#pragma once

#include <functional>
#include <string>
#include <vector>

#include "group/group.h"
#include "support/result.h"

namespace weft {

/// Groups of a FusionGraph that may become one kernel: a candidate (FusionStitching's fusion
/// pattern).
struct Pattern {
  std::vector<int> groups;  ///< ascending
  double gain_us = 0;       ///< over a kernel for each
  std::string because;      ///< the gain's terms
};

/// What a generator of patterns asks.
struct PatternRule {
  /// Whether a kernel can hold it, and why not.
  std::function<Decision(const Group& merged)> legal;
  /// What one kernel gains over a kernel for each of `parts`, without asking whether it is legal.
  std::function<double(const std::vector<Group>& parts, const Group& merged)> gain;
  /// Expressions a kernel at most.
  size_t most_expressions = 48;
};

}  // namespace weft
