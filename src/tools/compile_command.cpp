#include <fmt/format.h>

#include "runtime/artefact.h"
#include "tools/commands.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct CompileCommand {
  ModelOptions model;
  std::string output;
};

Status compile(const CompileCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target(o.model.target));
  if (o.model.target == "interp")
    return invalid_input("the interpreter has no artefact; use --target cpu");
  if (o.model.target != "cpu") {
    return Error{ErrorCode::kMissingDevice,
                 "artefacts for '" + o.model.target + "' are not there yet; use --target cpu"};
  }
  WEFT_ASSIGN_OR_RETURN(const auto given, load_given_inputs(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, compile_options(o.model, given));
  WEFT_ASSIGN_OR_RETURN(const CompiledModel model, load_or_compile(o.model.model, options));
  if (o.model.timings) print_timings(model.timings, model.kernels_from_cache, model.unique_kernels);
  const Program* program = &model.program;
  return save_artefact(o.output, {&program, 1});
}

}  // namespace

void add_compile_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<CompileCommand>();
  CLI::App* command = app.add_subcommand("compile", "Write a self-contained artefact");
  add_model_options(*command, o->model);
  command->add_option("-o,--output", o->output, "FILE.weft")->required();
  command->callback([o, &status] { status = compile(*o); });
}

}  // namespace weft
