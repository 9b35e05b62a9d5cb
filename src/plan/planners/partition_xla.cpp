#include "group/group_axes.h"
#include "plan/known_groups.h"
#include "plan/planners/partitions.h"
#include "plan/selectors/merge_greedily.h"

namespace weft {

/// Thread composition only, the baseline of the papers (FusionStitching 2019 §2.1): elementwise
/// chains, and a reduction at the end of one. Contractions stand alone, as library calls would.
Partition partition_xla(const TensorProgram& program, const Target& target) {
  KnownGroups known(program, target);
  FusionRule rule;
  rule.legal = [&](const Group& merged) -> Decision {
    auto axes = derive_group_axes(program, merged);
    if (!axes.ok()) return Decision::forbid(axes.error().message);
    for (const ExprId e : merged.exprs) {
      if (program.exprs[static_cast<size_t>(e)].is_contraction)
        return Decision::forbid("a contraction is a library call");
    }
    if (axes->reductions.size() > 1)
      return Decision::forbid("two reductions in one kernel need more than thread composition");
    if (axes->levels > 1)
      return Decision::forbid("a reduction's result is shared by more than its thread");
    return known.can_schedule(merged);
  };
  rule.profitable = [](const Group&, const Group&, const Group&) {
    return Decision::allow("saves a round trip through memory");
  };
  return merge_greedily(program, rule);
}

}  // namespace weft
