#include "plan/grouping.h"

namespace weft {

namespace {

/// Expressions a kernel: beyond this, registers run out and compile time grows faster than what a
/// further merge saves.
constexpr size_t kMaxExpressions = 48;

}  // namespace

/// Stitches everything that a template can hold: elementwise chains, reductions over common axes
/// with what feeds and follows them, contractions with what follows them. Scopes are derived when
/// the tile program is built.
Partition partition_auto(const TensorProgram& program, const Target& target) {
  FusionRule rule;
  rule.legal = [&](const Group& merged) { return can_schedule(program, merged, target); };
  rule.profitable = [](const Group& merged) {
    if (merged.exprs.size() > kMaxExpressions) {
      return Decision::forbid("the kernel would hold " + std::to_string(merged.exprs.size()) +
                              " expressions, more than " + std::to_string(kMaxExpressions));
    }
    return Decision::allow("saves a round trip through memory");
  };
  return merge_greedily(program, target, rule);
}

}  // namespace weft
