#include <fmt/format.h>

#include <algorithm>

#include "runtime/artefact.h"
#include "tools/commands.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct CompileCommand {
  ModelOptions model;
  std::string output;
  bool no_fallback = false;
};

/// Takes away the code that serves in the place of library calls.
void leave_calls_alone(Program& program) {
  for (KernelImage& kernel : program.kernels) {
    if (kernel.device.library_call.empty()) continue;
    kernel.bytes.clear();
    kernel.device.cooperative = false;
  }
}

/// The program for one GPU and, where it has barriers of the grid, one without them for devices
/// that hold fewer blocks at a time.
Status compile_for_device(const CompileCommand& o, CompileOptions options, const Target& device,
                          std::vector<CompiledModel>* models) {
  options.device = device;
  options.device_code = device.is_gpu();
  WEFT_ASSIGN_OR_RETURN(CompiledModel model, load_or_compile(o.model.model, options));
  if (o.no_fallback) leave_calls_alone(model.program);
  const bool has_barriers = std::ranges::any_of(
      model.program.kernels, [](const KernelImage& kernel) { return kernel.device.cooperative; });
  models->push_back(std::move(model));
  if (!has_barriers || o.no_fallback) return {};
  options.device->grid_barriers = false;
  WEFT_ASSIGN_OR_RETURN(models->emplace_back(), load_or_compile(o.model.model, options));
  return {};
}

Status compile(const CompileCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target(o.model.target));
  if (o.model.target == "interp" || o.model.target == "simt")
    return invalid_input("target '" + o.model.target +
                         "' has no artefact; use cpu or a GPU of `weft targets`");
  WEFT_ASSIGN_OR_RETURN(const auto given, load_given_inputs(o.model));
  ModelOptions common = o.model;
  common.target = "cpu";
  WEFT_ASSIGN_OR_RETURN(const CompileOptions options, compile_options(common, given));
  std::vector<CompiledModel> models;
  if (o.model.target == "cpu") {
    WEFT_ASSIGN_OR_RETURN(models.emplace_back(), load_or_compile(o.model.model, options));
  } else {
    WEFT_ASSIGN_OR_RETURN(const std::vector<Target> devices, device_targets(o.model.target));
    for (const Target& device : devices) {
      WEFT_RETURN_IF_ERROR(compile_for_device(o, options, device, &models));
    }
  }
  std::vector<const Program*> programs;
  for (const CompiledModel& model : models) {
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
  command->add_flag("--no-fallback", o->no_fallback,
                    "For GPUs: leave out the variant without barriers of the grid, which devices "
                    "with fewer multiprocessors run, and the kernels that do the work of library "
                    "calls where the library is missing");
  command->callback([o, &status] { status = compile(*o); });
}

}  // namespace weft
