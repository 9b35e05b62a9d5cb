#include "plan/generators/collected_patterns.h"

namespace weft {

bool CollectedPatterns::add(const std::vector<int>& groups) {
  if (groups.size() < 2 || refused_.contains(groups)) return false;
  if (known_.contains(groups)) return true;
  const Group merged = graph_.merged(groups);
  std::vector<Group> parts;
  for (const int g : groups) parts.push_back(graph_.group(g));
  const bool small = merged.exprs.size() <= rule_.most_expressions;
  const double gain = small ? rule_.gain(parts, merged) : 0;
  if (gain <= 0 || !graph_.is_convex(groups) || !rule_.legal(merged)) {
    refused_.insert(groups);
    return false;
  }
  known_.insert(groups);
  all_.push_back({groups, gain, {}});
  return true;
}

}  // namespace weft
