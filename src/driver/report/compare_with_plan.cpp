#include "driver/report/compare_with_plan.h"

#include <fmt/format.h>

#include "driver/compiler.h"
#include "driver/passes.h"
#include "driver/plan_file.h"
#include "expr/analysis/memory_levels.h"

namespace weft {

namespace {

/// The compilation's options for another plan alone.
CompileOptions options_for_plan(const Compilation& c) {
  CompileOptions options = c.options;
  options.stop_after = last_pass_of({"plan"});
  options.dump_dir.clear();
  options.plan_text.clear();
  options.plan_source.clear();
  options.compositions.clear();
  options.planner_parameters.clear();
  return options;
}

std::string least_kernels_text(const TensorProgram& program) {
  return fmt::format(
      "no plan has fewer than {} memory kernels: so many follow each other with calls between\n",
      memory_levels(program).least);
}

}  // namespace

Result<PlanComparison> compare_with_plan(const Compilation& now, const std::string& path) {
  CompileOptions options = options_for_plan(now);
  WEFT_RETURN_IF_ERROR(read_plan_file(path, &options));
  WEFT_ASSIGN_OR_RETURN(const auto was, compile_model(now.source, options));
  PlanComparison comparison = compare_plans(explained(*was), explained(now));
  comparison.was.name = path + " (planner " + comparison.was.name + ")";
  return comparison;
}

Result<std::string> compare_planners(const Compilation& c) {
  std::string out =
      fmt::format("{:<8} {:>8} {:>8} {:>8} {:>12} {:>12} {:>12}\n", "planner", "kernels", "compute",
                  "memory", "predicted us", "MB moved", "arena KB");
  for (const Planner& planner : planners()) {
    CompileOptions options = options_for_plan(c);
    options.planner = planner.name;
    WEFT_ASSIGN_OR_RETURN(const auto made, compile_model(c.source, options));
    const PlanTotals t = totals_of(*made);
    out += fmt::format("{:<8} {:>8} {:>8} {:>8} {:>12.1f} {:>12.1f} {:>12.0f}\n", planner.name,
                       t.compute_kernels + t.memory_kernels + t.library_calls, t.compute_kernels,
                       t.memory_kernels, t.predicted_us,
                       static_cast<double>(t.bytes_read + t.bytes_written) * 1e-6,
                       static_cast<double>(made->planned_arena_bytes) * 1e-3);
  }
  if (c.options.compute_as_calls) out += least_kernels_text(c.tensors);
  return out;
}

Result<std::string> optimality_text(const Compilation& c) {
  CompileOptions options = options_for_plan(c);
  options.planner = "ilp";
  WEFT_ASSIGN_OR_RETURN(const auto made, compile_model(c.source, options));
  const auto line = [](const Compilation& of) {
    const PlanTotals t = totals_of(of);
    return fmt::format("{:<8} {} kernels, predicted {:.1f} us", of.plan.planner,
                       t.compute_kernels + t.memory_kernels + t.library_calls, t.predicted_us);
  };
  const Optimality& found = made->plan.optimality;
  const double gap =
      found.bound_us > 0 ? 100 * (found.bound_us - found.gain_us) / found.bound_us : 0;
  return fmt::format(
      "{}\n{}; its patterns gain {:.1f} us by their own count, no others more than "
      "{:.1f} us: gap {:.2f}%\n",
      line(c), line(*made), found.gain_us, found.bound_us, gap);
}

}  // namespace weft
