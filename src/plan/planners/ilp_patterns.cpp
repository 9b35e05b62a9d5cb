#include "plan/planners/ilp_patterns.h"

#include <algorithm>

#include "cost/model_gain.h"
#include "plan/generators/exploration.h"
#include "plan/generators/substitution.h"
#include "plan/planners/stitching_rule.h"

namespace weft {

bool is_for_measuring(const TensorProgram& program, const Group& group) {
  return std::ranges::count_if(group.exprs, [&](ExprId e) {
           return !program.exprs[static_cast<size_t>(e)].reduce_extents.empty();
         }) > 1;
}

Result<IlpPatterns> ilp_patterns(const PlanningTask& task, KernelTimes& times,
                                 const ExecutionScore& execution, const FusionGraph& graph) {
  const TensorProgram& program = task.program;
  const PlannerParameters& parameters = task.parameters;
  const Target priced = priced_launches(task);
  IlpPatterns out;
  PatternRule rule;
  rule.legal = [&](const Group& merged) {
    return task.kinds.leaf ? task.known.can_be_leaf(merged)
                           : Decision::forbid("leaves are not tried");
  };
  rule.gain = [&](const std::vector<Group>& parts, const Group& merged) {
    if (is_for_measuring(program, merged)) {
      if (const auto gain = execution.gain_us(parts, merged)) {
        out.measured.insert(merged.exprs);
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
  CollectedPatterns candidates(graph, rule);
  substitute(program, graph, parameters.large_flops, candidates);
  explore(program, graph,
          {.most_operands = static_cast<size_t>(parameters.operands),
           .least_bytes = parameters.seed_bytes,
           .patterns_of_seed = static_cast<size_t>(parameters.seed_patterns)},
          candidates);
  out.candidates = candidates.all().size();
  WEFT_ASSIGN_OR_RETURN(
      out.selection, select_by_ilp(graph, candidates.all(), {parameters.nodes, parameters.cuts}));
  return out;
}

}  // namespace weft
