#include "driver/report/page_of_model.h"

#include <utility>

#include "driver/compiler.h"
#include "driver/models/device_target.h"
#include "driver/page/page.h"
#include "driver/report/compare_with_plan.h"
#include "driver/report/kernel_texts.h"
#include "driver/report/time_runs.h"
#include "runtime/artefact.h"
#include "runtime/device_program.h"

namespace weft {

namespace {

/// Time that the runs of a page's measurement take together.
constexpr double kSeconds = 1;

Result<MeasuredTimes> measure(ReadyModel& model) {
  WEFT_ASSIGN_OR_RETURN(const RunTimes runs, time_runs(model, 0, kSeconds));
  WEFT_ASSIGN_OR_RETURN(const std::vector<StepTime> steps, time_steps(model));
  MeasuredTimes times;
  times.run_us = runs.device_us > 0 ? runs.device_us : runs.median() * 1e3;
  for (const StepTime& step : steps) times.steps.push_back({step.name, step.depth, step.ms * 1e3});
  return times;
}

Result<MeasuredTimes> measure_compiled(const Compilation& c, const GivenInputs& inputs) {
  ReadyModel ready;
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(c.program, c.options.threads));
  WEFT_ASSIGN_OR_RETURN(ready.inputs, program_inputs(c.imported.inputs, c.program.inputs, inputs));
  return measure(ready);
}

Status check_holds_plans(const PageOptions& options) {
  if (options.compare_with.empty()) return {};
  return invalid_input("a comparison needs the model: an artefact holds one plan");
}

Result<std::string> page_of_artefact(const ModelRequest& request, const PageOptions& options) {
  WEFT_RETURN_IF_ERROR(check_holds_plans(options));
  if (options.measure) {
    WEFT_ASSIGN_OR_RETURN(ReadyModel ready, prepare_model(request));
    WEFT_ASSIGN_OR_RETURN(MeasuredTimes times, measure(ready));
    return explanation_page({ready.session->program(), {}, std::move(times), {}});
  }
  ArtefactOptions reading;
  reading.any_features = true;
  reading.verify_constants = false;
  WEFT_ASSIGN_OR_RETURN(const std::vector<Program> programs,
                        load_artefact(request.model, {}, reading));
  return explanation_page({programs.front(), {}, {}, {}});
}

}  // namespace

Result<std::string> page_of_model(const ModelRequest& request, const PageOptions& options) {
  if (is_artefact(request.model)) return page_of_artefact(request, options);
  WEFT_ASSIGN_OR_RETURN(CompileOptions compile, options_for_target(request));
  compile.cache_dir.clear();
  if (options.measure) {
    WEFT_RETURN_IF_ERROR(check_can_measure(compile));
    compile.device_code = compile.device && compile.device->is_gpu();
  }
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_model(request.model, compile));
  return page_of_compilation(*c, options, request.inputs);
}

Result<std::string> page_of_compilation(const Compilation& c, const PageOptions& options,
                                        const GivenInputs& inputs) {
  PageContent content{c.program, {}, {}, {}};
  WEFT_ASSIGN_OR_RETURN(content.texts, kernel_texts(c));
  if (options.measure) {
    WEFT_ASSIGN_OR_RETURN(content.measured, measure_compiled(c, inputs));
  }
  if (!options.compare_with.empty()) {
    WEFT_ASSIGN_OR_RETURN(const PlanComparison comparison,
                          compare_with_plan(c, options.compare_with));
    content.comparison_json = comparison_json(comparison);
  }
  return explanation_page(content);
}

Status check_can_measure(const CompileOptions& options) {
  if (!options.device) return {};
  if (!options.device->is_gpu()) return check_runs_here(*options.device);
  const auto device = open_cuda_device();
  return device.ok() ? Status() : Status(device.error());
}

Result<std::string> page_of_executable(std::shared_ptr<const Executable> executable, int threads,
                                       const PageOptions& options) {
  WEFT_RETURN_IF_ERROR(check_holds_plans(options));
  const Program& program = executable->program();
  if (!options.measure) return explanation_page({program, {}, {}, {}});
  ReadyModel ready;
  WEFT_ASSIGN_OR_RETURN(ready.inputs, artefact_inputs(program.inputs, {}));
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(std::move(executable), threads));
  WEFT_ASSIGN_OR_RETURN(MeasuredTimes times, measure(ready));
  return explanation_page({program, {}, std::move(times), {}});
}

}  // namespace weft
