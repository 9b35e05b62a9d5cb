// The integer program by which the planner `ilp` selects patterns of a model, and what was
// selected.
//
//     integer_programs MODEL TARGET
//
// One JSON object on stdout: {"columns", "gains": [by column], "rows": [{"columns": […], "most"}],
// "gain", "bound", "cuts"}. The rows are those that patterns share an expression by, and those that
// cut cycles. Bodies of loops and branches, which are planned alone, are left out.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "driver/compiler.h"
#include "driver/models/device_target.h"
#include "driver/passes.h"
#include "plan/planners/ilp_patterns.h"

namespace {

using namespace weft;

int fail(const Error& error) {
  fmt::print(stderr, "integer_programs: {}\n", error.message);
  return static_cast<int>(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fail(invalid_input("MODEL TARGET"));
  auto target = target_by_name(argv[2]);
  if (!target.ok()) return fail(target.error());
  CompileOptions options;
  options.planner = "ilp";
  options.device = *target;
  options.stop_after = kLastExpressing;
  const auto c = compile_model(std::string(argv[1]), options);
  if (!c.ok()) return fail(c.error());
  const TensorProgram& program = (*c)->tensors;
  GroupAnswers answers;
  KnownGroups known(program, *target, answers);
  const PlanningTask task{program, *target, {.leaf = true}, known};
  KernelTimes times(program, *target, known);
  const ExecutionScore execution(*target, nullptr, known);
  const FusionGraph graph(program);
  const auto found = ilp_patterns(task, times, execution, graph);
  if (!found.ok()) return fail(found.error());
  const Selection& selection = found->selection;
  nlohmann::ordered_json out{{"columns", selection.program.gains.size()},
                             {"gains", selection.program.gains},
                             {"rows", nlohmann::json::array()},
                             {"gain", selection.gain_us},
                             {"bound", selection.bound_us},
                             {"cuts", selection.cuts}};
  for (const IntegerProgram::Row& row : selection.program.rows)
    out["rows"].push_back({{"columns", row.columns}, {"most", row.most}});
  fmt::print("{}\n", out.dump());
  return 0;
}
