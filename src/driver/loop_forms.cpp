#include "driver/loop_forms.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "driver/passes.h"
#include "plan/few_kernels.h"
#include "rewrite/roll_loops.h"
#include "rewrite/skew_scans.h"
#include "rewrite/split_scans.h"
#include "rewrite/unite_scans.h"

namespace weft {

Compilation begun_again(const Compilation& c) {
  Compilation again;
  again.options = c.options;
  again.options.dump_dir.clear();
  again.target = c.target;
  again.planner = c.planner;
  again.merges_products = c.merges_products;
  again.rolls = c.rolls;
  again.skews = c.skews;
  again.unites = c.unites;
  again.recompute = c.recompute;
  again.filter = c.filter;
  if (!c.options.plan_text.empty()) again.filtered = c.filtered;
  again.graph = c.graph;
  again.planning = c.planning;
  return again;
}

namespace {

bool runs_loops(const FusionPlan& plan) {
  const auto has_loops = [](const PlannedKernel& kernel) { return !kernel.loops.empty(); };
  if (std::ranges::any_of(plan.kernels, has_loops)) return true;
  return std::ranges::any_of(plan.regions, [](const RegionPlans& regions) {
    return runs_whole_loop(regions) ||
           std::ranges::any_of(regions, [](const auto& inner) { return runs_loops(*inner); });
  });
}

/// Those that are written out, and those of which one holds several.
bool find_loops(Graph& graph) {
  const bool split = split_scans(graph);
  return roll_loops(graph) || split;
}

/// Another form of the graph's loops, which is planned beside the one that is there.
struct LoopForm {
  bool Compilation::* asked;
  bool FusionPlan::* taken;
  bool (*rewrite)(Graph&);
  bool (*applies)(const Compilation&);  ///< of what is planned
};
/// In the order in which one is made of another.
constexpr LoopForm kLoopForms[] = {
    {&Compilation::rolls, &FusionPlan::rolled, find_loops,
     [](const Compilation& c) { return !c.options.unroll; }},
    {&Compilation::skews, &FusionPlan::skewed, skew_scans,
     [](const Compilation& c) { return c.target.is_gpu() || runs_loops(c.plan); }},
    {&Compilation::unites, &FusionPlan::united, unite_scans,
     [](const Compilation&) { return true; }},
};

/// The compilation in another form, up to a pass; nothing where the form changes nothing.
Result<std::optional<Compilation>> in_form(const Compilation& c, const LoopForm& form,
                                           std::string_view last) {
  Compilation apart = begun_again(c);
  if (!form.rewrite(apart.graph)) return std::optional<Compilation>();
  apart.*form.asked = true;
  WEFT_RETURN_IF_ERROR(run_passes(apart, passes_between("fold-constants", last)));
  return std::optional<Compilation>(std::move(apart));
}

void take_form(Compilation form, Compilation& c) {
  c.graph = std::move(form.graph);
  c.tensors = std::move(form.tensors);
  c.plan = std::move(form.plan);
  c.substitutions = std::move(form.substitutions);
  c.merges_products = form.merges_products;
  c.filtered = std::move(form.filtered);
  c.rolls = form.rolls;
  c.skews = form.skews;
  c.unites = form.unites;
  c.planned_arena_bytes = form.planned_arena_bytes;
  c.unfused_arena_bytes = form.unfused_arena_bytes;
}

/// Whether the planner may let all iterations of a loop share a launch.
Result<bool> repeats_loops(const Compilation& c) {
  if (!c.target.is_gpu()) return false;
  if (c.options.compositions.empty()) return c.planner->compositions_of_gpus.recur;
  WEFT_ASSIGN_OR_RETURN(const CompositionKinds kinds,
                        parse_composition_kinds(c.options.compositions));
  return kinds.recur;
}

/// Whether a plan of another form is taken over the one that is there: it is clearly quicker, or
/// has fewer launches where these are to be few.
bool is_better(const PlanTotals& form, const PlanTotals& there, bool few) {
  constexpr double kClearly = 0.95;
  const auto loses_too_much = [](const PlanTotals& fewer, const PlanTotals& more) {
    return fewer.predicted_us >= (1 + kFewMayLose) * more.predicted_us;
  };
  if (few && form.launches < there.launches) return !loses_too_much(form, there);
  if (few && form.launches > there.launches) return loses_too_much(there, form);
  return form.predicted_us < (few ? 1 : kClearly) * there.predicted_us;
}

}  // namespace

Status plan_loop_forms(Compilation& c) {
  WEFT_ASSIGN_OR_RETURN(const bool repeats, repeats_loops(c));
  if (!repeats || c.other.valid()) return {};
  const auto totals = [](const Compilation& planned) {
    return plan_totals(planned.plan, planned.tensors, 0);
  };
  // Those in front of one that was asked for were planned beside it.
  size_t next = 0;
  for (size_t f = 0; f < std::size(kLoopForms); ++f) {
    if (c.*kLoopForms[f].asked) next = f + 1;
  }
  for (; next < std::size(kLoopForms); ++next) {
    const LoopForm& form = kLoopForms[next];
    if (!form.applies(c)) continue;
    WEFT_ASSIGN_OR_RETURN(std::optional<Compilation> apart, in_form(c, form, "plan"));
    if (!apart || !is_better(totals(*apart), totals(c), c.planner->joins_launches)) continue;
    apart->plan.*form.taken = true;
    take_form(std::move(*apart), c);
    return {};  // the forms behind it were planned with it
  }
  return {};
}

Status take_given_forms(Compilation& c) {
  WEFT_ASSIGN_OR_RETURN(const FusionPlan header, parse_plan_header(c.options.plan_text));
  for (const LoopForm& form : kLoopForms) {
    if (!(header.*form.taken)) continue;
    WEFT_ASSIGN_OR_RETURN(std::optional<Compilation> given, in_form(c, form, "filter-minimally"));
    if (given) take_form(std::move(*given), c);
  }
  return {};
}

}  // namespace weft
