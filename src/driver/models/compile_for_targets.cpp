#include "driver/models/compile_for_targets.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/cpu/code_features.h"
#include "driver/models/device_target.h"

namespace weft {

namespace {

/// Takes away the code that serves in the place of library calls.
void leave_calls_alone(Program& program) {
  for (KernelImage& kernel : program.kernels) {
    if (kernel.device.library_call.empty()) continue;
    kernel.bytes.clear();
    kernel.device.cooperative = false;
  }
}

/// Code for all that processors of the target's kind may have beyond its x86-64 level, where the
/// model has a use for that, and for the level.
Status compile_for_cpu(const std::string& path, CompileOptions options, const Target& device,
                       bool fallback, std::vector<CompiledModel>* models) {
  const Target level = portable(device);
  options.device = beyond_level(level);
  WEFT_ASSIGN_OR_RETURN(models->emplace_back(), load_or_compile(path, options));
  if (!fallback || models->back().program.required_features == code_features(level)) return {};
  options.device = level;
  WEFT_ASSIGN_OR_RETURN(models->emplace_back(), load_or_compile(path, options));
  return {};
}

Status compile_for(const std::string& path, CompileOptions options, const Target& device,
                   bool fallback, std::vector<CompiledModel>* models) {
  if (!device.is_gpu()) return compile_for_cpu(path, options, device, fallback, models);
  options.device = device;
  options.device_code = true;
  WEFT_ASSIGN_OR_RETURN(CompiledModel model, load_or_compile(path, options));
  if (!fallback) leave_calls_alone(model.program);
  const bool has_barriers = std::ranges::any_of(
      model.program.kernels, [](const KernelImage& kernel) { return kernel.device.cooperative; });
  models->push_back(std::move(model));
  if (!has_barriers || !fallback) return {};
  options.device->grid_barriers = false;
  WEFT_ASSIGN_OR_RETURN(models->emplace_back(), load_or_compile(path, options));
  return {};
}

}  // namespace

Result<std::vector<CompiledModel>> compile_for_targets(const ModelRequest& request, bool fallback) {
  if (request.target == "interp" || request.target == "simt")
    return invalid_input("target '" + request.target +
                         "' has no artefact; use cpu or a GPU of `weft targets`");
  std::vector<CompiledModel> models;
  if (request.target == "cpu") {
    const CompileOptions& options = request.options;
    WEFT_RETURN_IF_ERROR(compile_for(request.model, options,
                                     host_cpu_target(options.threads, options.max_vector_bytes),
                                     fallback, &models));
    return models;
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<Target> devices, targets_by_names(request.target));
  for (const Target& device : devices) {
    WEFT_RETURN_IF_ERROR(compile_for(request.model, request.options, device, fallback, &models));
  }
  return models;
}

namespace {

using Shapes = std::vector<Shape>;

Shapes input_shapes(const Program& program) {
  Shapes shapes;
  for (const ProgramIo& input : program.inputs) shapes.push_back(input.shape);
  return shapes;
}

std::string text_of(const Binding& binding) {
  std::string text;
  for (const auto& [dimension, extent] : binding) {
    text += (text.empty() ? "" : ", ") + dimension + "=" + std::to_string(extent);
  }
  return text;
}

}  // namespace

Result<std::vector<CompiledModel>> compile_versions(const ModelRequest& request,
                                                    const std::vector<Binding>& versions,
                                                    bool fallback) {
  std::vector<CompiledModel> models;
  std::map<Shapes, const Binding*> known;
  for (const Binding& version : versions) {
    ModelRequest bound = request;
    for (const auto& [dimension, extent] : version) bound.options.import.bind[dimension] = extent;
    WEFT_ASSIGN_OR_RETURN(std::vector<CompiledModel> of_version,
                          compile_for_targets(bound, fallback));
    const auto [first, is_new] = known.emplace(input_shapes(of_version.front().program), &version);
    if (!is_new)
      return invalid_input("versions " + text_of(*first->second) + " and " + text_of(version) +
                           " give the inputs the same shapes");
    std::ranges::move(of_version, std::back_inserter(models));
  }
  return models;
}

}  // namespace weft
