#include <algorithm>

#include "cost/model_gain.h"
#include "fmt/format.h"
#include "plan/generators/exploration.h"
#include "plan/generators/substitution.h"
#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"
#include "plan/selectors/merge_patterns.h"
#include "plan/selectors/select_by_ilp.h"

namespace weft {

/// Substitution and exploration propose patterns, the model of saved traffic and launches prices
/// them (products by their own models), and an integer program selects (FusionStitching 2019 §4).
/// What is left along edges merges as in greedy.
Result<Partition> partition_ilp(const PlanningTask& task) {
  const TensorProgram& program = task.program;
  const PlannerParameters& parameters = task.parameters;
  const Target priced = priced_launches(task);
  KernelTimes times(program, task.target, task.known);
  PatternRule rule;
  rule.legal = [&](const Group& merged) {
    return task.kinds.leaf ? task.known.can_be_leaf(merged)
                           : Decision::forbid("leaves are not tried");
  };
  rule.gain = [&](const std::vector<Group>& parts, const Group& merged) {
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
    p.because = fmt::format("one of {} expressions that gain {:.1f} us, of {} candidates",
                            p.groups.size(), p.gain_us, candidates.all().size());
  }
  Partition out = merge_greedily(program, stitching_rule(task, times), std::move(graph), merged);
  out.optimality = {selection.gain_us, selection.bound_us};
  return out;
}

}  // namespace weft
