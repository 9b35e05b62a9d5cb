#include <fmt/format.h>

#include <algorithm>

#include "driver/check/round_trip.h"
#include "driver/compiler.h"
#include "driver/explain/explain_json.h"
#include "driver/passes.h"
#include "driver/print_level.h"
#include "expr/analysis/print_analysis.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct DumpCommand {
  ModelOptions model;
  std::vector<std::string> stages;
  bool check = false;
  bool analysis = false;
  double intensity = kComputeIntensive;
};

/// What `weft explain --json` prints; beside the levels, it is of a plan.
constexpr const char* kExplanation = "explanation";

Status dump(const DumpCommand& o) {
  WEFT_ASSIGN_OR_RETURN(const ModelRequest request, model_request(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, options_for_target(request));
  std::vector<std::string> levels = o.check ? std::vector<std::string>{"kernel"} : o.stages;
  std::ranges::replace(levels, kExplanation, "plan");
  options.stop_after = last_pass_of(levels);
  auto compiled = [&] {
    const ProgressBar bar(&options);
    return compile_model(o.model.model, options);
  }();
  WEFT_ASSIGN_OR_RETURN(const auto c, std::move(compiled));
  for (const std::string& stage : o.stages) {
    if (o.stages.size() > 1) fmt::print("==== {}\n", stage);
    if (stage == kExplanation) {
      fmt::print("{}\n", explain_json(explained(*c)));
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(const std::string text, print_level(*c, stage));
    fmt::print("{}", text);
    if (o.analysis && stage == "tensor-program")
      fmt::print("{}", print_analysis(c->tensors, o.intensity));
  }
  if (o.check) WEFT_RETURN_IF_ERROR(check_round_trips(*c));
  if (o.model.timings) print_timings(c->timings, c->kernels_from_cache, c->unique_kernels);
  return {};
}

}  // namespace

void add_dump_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<DumpCommand>();
  CLI::App* command = app.add_subcommand("dump", "Print one level");
  add_model_options(*command, o->model);
  command
      ->add_option("--stage", o->stages,
                   "graph, tensor-program, plan, tile-program, kernel, code or explanation (what "
                   "explain --json prints); given several times, each behind a line '==== STAGE'")
      ->required()
      ->allow_extra_args(false)
      ->check(CLI::IsMember(
          {"graph", "tensor-program", "plan", "tile-program", "kernel", "code", kExplanation}));
  command->add_flag("--check", o->check,
                    "Parse what every level prints, and fail where it does not print the same");
  command->add_flag("--analysis", o->analysis,
                    "Behind the tensor program: dependences, intensities, reuse and live ranges");
  command
      ->add_option("--intensity", o->intensity,
                   "Operations per element from which on an expression counts as compute-intensive")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([o, &status] { status = dump(*o); });
}

}  // namespace weft
