#include "cost/estimate.h"
#include "fmt/format.h"
#include "plan/grouping.h"

namespace weft {

namespace {

/// Expressions a kernel: beyond this, registers run out and compile time grows faster than what a
/// further merge saves.
constexpr size_t kMaxExpressions = 48;

/// Whether one kernel is predicted to be quicker than two.
Decision saves_time(const CostModel& cost, const Group& a, const Group& b, const Group& merged) {
  if (merged.exprs.size() > kMaxExpressions) {
    return Decision::forbid(fmt::format("the kernel would hold {} expressions, more than {}",
                                        merged.exprs.size(), kMaxExpressions));
  }
  const Estimate first = cost.estimate(a.exprs, a.outputs),
                 second = cost.estimate(b.exprs, b.outputs),
                 together = cost.estimate(merged.exprs, merged.outputs);
  const double saved = first.microseconds + second.microseconds - together.microseconds;
  if (saved <= 0) return Decision::forbid(fmt::format("one kernel takes {:.1f} us longer", -saved));
  const auto moved = [](const Estimate& e) { return e.bytes_read + e.bytes_written; };
  return Decision::allow(fmt::format("saves {:.1f} us and {} bytes of memory traffic", saved,
                                     moved(first) + moved(second) - moved(together)));
}

}  // namespace

/// Stitches everything that a template can hold: elementwise chains, reductions over common axes
/// with what feeds and follows them, contractions with what follows them. Scopes are derived when
/// the tile program is built.
Partition partition_auto(const TensorProgram& program, const Target& target) {
  const CostModel cost(program, target);
  FusionRule rule;
  rule.legal = [&](const Group& merged) { return can_schedule(program, merged, target); };
  rule.profitable = [&](const Group& a, const Group& b, const Group& merged) {
    return saves_time(cost, a, b, merged);
  };
  return merge_greedily(program, target, rule);
}

}  // namespace weft
