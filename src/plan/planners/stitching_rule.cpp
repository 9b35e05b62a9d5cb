#include "plan/planners/stitching_rule.h"

#include <array>

#include "fmt/format.h"

namespace weft {

namespace {

Decision saves_time(KernelTimes& times, const Group& a, const Group& b, const Group& merged) {
  if (merged.exprs.size() > kMostExpressions) {
    return Decision::forbid(fmt::format("the kernel would hold {} expressions, more than {}",
                                        merged.exprs.size(), kMostExpressions));
  }
  const KernelTimes::Saving saved = times.saved(std::array{a, b}, merged);
  if (saved.microseconds <= 0)
    return Decision::forbid(fmt::format("one kernel takes {:.1f} us longer", -saved.microseconds));
  return Decision::allow(fmt::format("saves {:.1f} us and {} bytes of memory traffic",
                                     saved.microseconds, saved.bytes));
}

Decision composes(KernelTimes& times, KnownGroups& known, const Group& a, const Group& b,
                  const Group& merged) {
  if (merged.exprs.size() > kMostExpressions)
    return Decision::forbid(fmt::format("they would hold {} expressions", merged.exprs.size()));
  if (known.can_be_leaf(merged)) return Decision::forbid("a template holds them");
  const double apart = times.latency(a) + times.latency(b);
  const Result<double> together = known.block_us(merged, apart);
  if (!together.ok()) return Decision::forbid(together.error().message);
  const double saved = apart - *together;
  if (saved <= 0) return Decision::forbid(fmt::format("they take {:.1f} us longer", -saved));
  return Decision::allow(fmt::format("blocks of stages save {:.1f} us", saved));
}

}  // namespace

FusionRule stitching_rule(const TensorProgram& program, const Target& target, KernelTimes& times,
                          KnownGroups& known, CompositionKinds kinds) {
  FusionRule rule;
  rule.legal = [&known, kinds](const Group& merged) {
    return kinds.leaf ? known.can_be_leaf(merged) : Decision::forbid("leaves are not tried");
  };
  rule.profitable = [&times](const Group& a, const Group& b, const Group& merged) {
    return saves_time(times, a, b, merged);
  };
  if (kinds.leaf && target.is_gpu()) {
    rule.may_be_beside = [&program](const Group& a, const Group& b) {
      return may_reduce_two_ways(program, {&a, &b});
    };
    rule.legal_beside = [&known](const Group& merged) {
      return known.can_reduce_both_ways(merged);
    };
  }
  if (kinds.block) {
    rule.composes = [&times, &known](const Group& a, const Group& b, const Group& merged) {
      return composes(times, known, a, b, merged);
    };
  }
  return rule;
}

}  // namespace weft
