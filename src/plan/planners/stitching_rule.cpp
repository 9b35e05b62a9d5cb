#include "plan/planners/stitching_rule.h"

#include <array>

#include "fmt/format.h"

namespace weft {

namespace {

Decision saves_time(KernelTimes& times, const Group& a, const Group& b, const Group& merged) {
  const KernelTimes::Saving saved = times.saved(std::array{a, b}, merged);
  if (saved.microseconds <= 0)
    return Decision::forbid(fmt::format("one kernel takes {:.1f} us longer", -saved.microseconds));
  return Decision::allow(fmt::format("saves {:.1f} us and {} bytes of memory traffic",
                                     saved.microseconds, saved.bytes));
}

Decision composes(KernelTimes& times, KnownGroups& known, const Group& a, const Group& b,
                  const Group& merged) {
  const double apart = times.latency(a) + times.latency(b);
  const Result<double> together = known.block_us(merged, apart);
  if (!together.ok()) return Decision::forbid(together.error().message);
  const double saved = apart - *together;
  if (saved <= 0) return Decision::forbid(fmt::format("they take {:.1f} us longer", -saved));
  return Decision::allow(fmt::format("blocks of stages save {:.1f} us", saved));
}

}  // namespace

Target priced_launches(const PlanningTask& task) {
  Target target = task.target;
  if (task.parameters.launch_us >= 0) {
    target.launch_us = task.parameters.launch_us;
    target.barrier_us = 0;
  }
  return target;
}

FusionRule stitching_rule(const PlanningTask& task, KernelTimes& times) {
  const TensorProgram& program = task.program;
  KnownGroups& known = task.known;
  const CompositionKinds kinds = task.kinds;
  const auto most = static_cast<size_t>(task.parameters.expressions);
  FusionRule rule;
  rule.legal = [&known, kinds](const Group& merged) {
    return kinds.leaf ? known.can_be_leaf(merged) : Decision::forbid("leaves are not tried");
  };
  rule.profitable = [&times, most](const Group& a, const Group& b, const Group& merged) {
    if (merged.exprs.size() > most) {
      return Decision::forbid(fmt::format("the kernel would hold {} expressions, more than {}",
                                          merged.exprs.size(), most));
    }
    return saves_time(times, a, b, merged);
  };
  if (kinds.leaf && task.target.is_gpu()) {
    rule.reduced_sizes = [&program](const Group& group) { return reduced_sizes(program, group); };
    rule.legal_beside = [&known](const Group& merged) {
      return known.can_reduce_both_ways(merged);
    };
  }
  if (kinds.block) {
    rule.composes = [&times, &known, kinds, most](const Group& a, const Group& b,
                                                  const Group& merged) {
      if (merged.exprs.size() > most)
        return Decision::forbid(fmt::format("they would hold {} expressions", merged.exprs.size()));
      if (kinds.leaf && known.can_be_leaf(merged)) return Decision::forbid("a template holds them");
      return composes(times, known, a, b, merged);
    };
  }
  return rule;
}

}  // namespace weft
