#include <fmt/format.h>

#include "driver/compile_for_targets.h"
#include "runtime/artefact.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct CompileCommand {
  ModelOptions model;
  std::string output;
  bool no_fallback = false;
};

Status compile(const CompileCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(o.model));
  const auto models = [&] {
    const ProgressBar bar(&request.options);
    return compile_for_targets(request, !o.no_fallback);
  }();
  if (!models.ok()) return models.error();
  std::vector<const Program*> programs;
  for (const CompiledModel& model : *models) {
    programs.push_back(&model.program);
    if (!o.model.timings) continue;
    print_timings(model.timings, model.kernels_from_cache, model.unique_kernels);
  }
  return save_artefact(o.output, programs);
}

}  // namespace

void add_compile_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<CompileCommand>();
  CLI::App* command = app.add_subcommand("compile", "Write a self-contained artefact");
  add_model_options(*command, o->model);
  command->add_option("-o,--output", o->output, "FILE.weft")->required();
  command->add_flag(
      "--no-fallback", o->no_fallback,
      "For GPUs: leave out the variant without barriers of the grid, which devices "
      "with fewer multiprocessors run, and the kernels that do the work of library "
      "calls where the library is missing. For CPUs: leave out the code for processors "
      "that cannot multiply bytes or bfloat16, where the other multiplies them");
  command->callback([o, &status] { status = compile(*o); });
}

}  // namespace weft
