#include <algorithm>
#include <array>
#include <set>

#include "cost/model_gain.h"
#include "fmt/format.h"
#include "plan/execution_score.h"
#include "plan/generators/exploration.h"
#include "plan/generators/substitution.h"
#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"
#include "plan/selectors/merge_patterns.h"
#include "plan/selectors/select_by_ilp.h"

namespace weft {

namespace {

/// Whether the group is of a kind that the model knows little of and the paper measures: it reduces
/// in several places, products among them (§4.3).
bool is_for_measuring(const TensorProgram& program, const Group& group) {
  return std::ranges::count_if(group.exprs, [&](ExprId e) {
           return !program.exprs[static_cast<size_t>(e)].reduce_extents.empty();
         }) > 1;
}

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

/// Substitution and exploration propose patterns, the model of saved traffic and launches prices
/// them (products by their own models), and an integer program selects (FusionStitching 2019 §4).
/// What is left along edges merges as in greedy.
Result<Partition> partition_ilp(const PlanningTask& task) {
  const TensorProgram& program = task.program;
  const PlannerParameters& parameters = task.parameters;
  const Target priced = priced_launches(task);
  KernelTimes times(program, task.target, task.known);
  const ExecutionScore execution(priced, task.measured, task.known);
  std::set<std::vector<ExprId>> measured;  // patterns
  PatternRule rule;
  rule.legal = [&](const Group& merged) {
    return task.kinds.leaf ? task.known.can_be_leaf(merged)
                           : Decision::forbid("leaves are not tried");
  };
  rule.gain = [&](const std::vector<Group>& parts, const Group& merged) {
    if (is_for_measuring(program, merged)) {
      if (const auto gain = execution.gain_us(parts, merged)) {
        measured.insert(merged.exprs);
        return *gain;
      }
    }
    const KernelTimes::Saving saved = times.saved(parts, merged);
    const bool has_product = std::ranges::any_of(merged.exprs, [&](ExprId e) {
      return program.exprs[static_cast<size_t>(e)].is_contraction;
    });
    return has_product ? saved.microseconds : model_gain_us(saved.bytes, std::ssize(parts), priced);
  };
  rule.most_expressions = static_cast<size_t>(task.parameters.expressions);
  FusionGraph graph(program);
  CollectedPatterns candidates(graph, rule);
  substitute(program, graph, parameters.large_flops, candidates);
  explore(program, graph,
          {.most_operands = static_cast<size_t>(parameters.operands),
           .least_bytes = parameters.seed_bytes,
           .patterns_of_seed = static_cast<size_t>(parameters.seed_patterns)},
          candidates);
  WEFT_ASSIGN_OR_RETURN(
      const Selection selection,
      select_by_ilp(graph, candidates.all(), {parameters.nodes, parameters.cuts}));
  std::vector<Pattern> merged = merge_patterns(selection.patterns, graph);
  for (Pattern& p : merged) {
    const bool by_rows = measured.contains(graph.group(graph.group_of(p.groups.front())).exprs);
    p.because = fmt::format("one of {} expressions that gain {:.1f} us{}, of {} candidates",
                            p.groups.size(), p.gain_us, by_rows ? " by measured times" : "",
                            candidates.all().size());
  }
  Partition out =
      merge_greedily(program, rule_behind(task, times, execution), std::move(graph), merged);
  out.optimality = {selection.gain_us, selection.bound_us};
  return out;
}

}  // namespace weft
