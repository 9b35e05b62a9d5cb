#include <array>

#include "fmt/format.h"
#include "plan/planners/ilp_patterns.h"
#include "plan/planners/stitching_rule.h"
#include "plan/selectors/merge_patterns.h"

namespace weft {

namespace {

/// What merges along edges behind the selection: where it was measured, by that.
FusionRule rule_behind(const PlanningTask& task, KernelTimes& times,
                       const ExecutionScore& execution) {
  FusionRule rule = stitching_rule(task, times);
  rule.profitable = [&program = task.program, &execution, by_model = rule.profitable](
                        const Group& a, const Group& b, const Group& merged) {
    const auto measured = is_for_measuring(program, merged)
                              ? execution.gain_us(std::array{a, b}, merged)
                              : std::nullopt;
    if (!measured) return by_model(a, b, merged);
    if (*measured <= 0)
      return Decision::forbid(
          fmt::format("measured: one kernel takes {:.1f} us longer", -*measured));
    return Decision::allow(fmt::format("measured: saves {:.1f} us", *measured));
  };
  return rule;
}

}  // namespace

/// The patterns of ilp_patterns. What is left along edges merges as in greedy.
Result<Partition> partition_ilp(const PlanningTask& task) {
  const TensorProgram& program = task.program;
  KernelTimes times(program, task.target, task.known);
  const ExecutionScore execution(priced_launches(task), task.measured, task.known);
  FusionGraph graph(program);
  WEFT_ASSIGN_OR_RETURN(const IlpPatterns found, ilp_patterns(task, times, execution, graph));
  std::vector<Pattern> merged = merge_patterns(found.selection.patterns, graph);
  for (Pattern& p : merged) {
    const Group& group = graph.group(graph.group_of(p.groups.front()));
    p.because = fmt::format(
        "one of {} expressions that gain {:.1f} us{}, of {} candidates", p.groups.size(), p.gain_us,
        found.measured.contains(group.exprs) ? " by measured times" : "", found.candidates);
  }
  Partition out =
      merge_greedily(program, rule_behind(task, times, execution), std::move(graph), merged);
  out.optimality = {found.selection.gain_us, found.selection.bound_us};
  return out;
}

}  // namespace weft
