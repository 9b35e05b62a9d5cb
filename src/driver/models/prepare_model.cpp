#include "driver/models/prepare_model.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "driver/compiler.h"
#include "driver/models/device_target.h"
#include "driver/models/emulated_kernels.h"
#include "driver/models/load_or_compile.h"
#include "interp/interpreter.h"
#include "runtime/artefact.h"
#include "runtime/device_program.h"
#include "runtime/load_programs.h"

namespace weft {

namespace {

/// The device whose figures a plan for the emulator goes by.
constexpr const char* kEmulated = "h100-sxm";

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The totals of an artefact's explanation; zeros where it has none.
PlanTotals explained_totals(const Program& program) {
  const auto json = nlohmann::json::parse(program.explanation_json, nullptr, false);
  PlanTotals t;
  if (!json.is_object()) return t;
  const auto number = [&](const char* key) { return json.value(key, int64_t{0}); };
  t.ops = number("ops");
  t.memory_kernels = number("memory_kernels");
  t.compute_kernels = number("compute_kernels");
  t.library_calls = number("library_calls");
  t.bytes_read = number("bytes_read");
  t.bytes_written = number("bytes_written");
  t.flops = number("flops");
  t.predicted_us = json.value("predicted_us", 0.0);
  return t;
}

/// Whether a program's inputs have the shapes of those given.
bool fits(const Program& program, const GivenInputs& given) {
  return std::ranges::all_of(program.inputs, [&](const ProgramIo& io) {
    const auto it = given.values.find(io.name);
    return it == given.values.end() || it->second.shape() == io.shape;
  });
}

/// Of an artefact's programs the one that fits the given shapes, else the last.
Result<std::shared_ptr<const Executable>> load_fitting(const ModelRequest& request) {
  const Target host = host_cpu_target(request.options.threads, request.options.max_vector_bytes);
  WEFT_ASSIGN_OR_RETURN(std::vector<Program> programs,
                        load_artefact(request.model, host.features, ArtefactOptions()));
  if (programs.front().arch.empty()) {
    const auto best = std::ranges::find_if(programs, [&](const Program& p) {
      return fits(p, request.inputs) || &p == &programs.back();
    });
    return Executable::create(std::move(*best));
  }
  WEFT_ASSIGN_OR_RETURN(const ModelPrograms loaded, load_programs(std::move(programs)));
  return *std::ranges::find_if(loaded, [&](const auto& e) {
    return fits(e->program(), request.inputs) || e == loaded.back();
  });
}

std::vector<std::string> device_notes(const Session& session) {
  const auto& device = session.executable().device();
  return device == nullptr ? std::vector<std::string>() : device->notes();
}

Result<ReadyModel> prepare_artefact(const ModelRequest& request) {
  ReadyModel ready;
  const auto start = Clock::now();
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable, load_fitting(request));
  const Program& program = executable->program();
  ready.totals = explained_totals(program);
  ready.unique_kernels = static_cast<int64_t>(program.kernels.size());
  WEFT_ASSIGN_OR_RETURN(ready.inputs, artefact_inputs(program.inputs, request.inputs));
  for (const ProgramIo& io : program.outputs) ready.output_names.push_back(io.name);
  WEFT_ASSIGN_OR_RETURN(ready.session,
                        Session::create(std::move(executable), request.options.threads));
  ready.notes = device_notes(*ready.session);
  ready.compile_ms = milliseconds_since(start);
  return ready;
}

/// What a compilation says of its graph's inputs and outputs.
Status take_inputs(const GivenInputs& given, ReadyModel* ready) {
  const Compilation& c = *ready->compilation;
  ready->output_names = c.graph.output_names;
  ready->timings = c.timings;
  WEFT_ASSIGN_OR_RETURN(ready->inputs,
                        program_inputs(c.imported.inputs, graph_inputs(c.graph), given));
  return {};
}

/// The options without the values of large inputs: a model that needs those runs in parts, where
/// it can, and is not specialised on them.
CompileOptions with_small_values(CompileOptions options) {
  constexpr int64_t kMostElements = 256;
  std::map<std::string, HostTensor>& values = options.import.known_inputs;
  for (auto it = values.begin(); it != values.end();) {
    if (it->second.size() <= kMostElements) {
      ++it;
      continue;
    }
    options.import.shapes[it->first] = it->second.shape();
    it = values.erase(it);
  }
  return options;
}

bool has_more_values(const CompileOptions& options, const CompileOptions& small) {
  return options.import.known_inputs.size() > small.import.known_inputs.size();
}

/// A model that could not be compiled as a whole; nothing where it is none in parts, either.
std::optional<Result<ReadyModel>> prepare_parts(const ModelRequest& request,
                                                const CompileOptions& options,
                                                const Error& refused) {
  if (refused.code != ErrorCode::kUnsupported) return std::nullopt;
  auto parts = ModelInParts::open(request.model, options, request.target == "interp");
  if (!parts.ok()) return std::nullopt;
  ReadyModel ready;
  ready.parts = std::move(*parts);
  ready.notes = {"sizes of the model depend on values: it is compiled in parts while it runs"};
  ready.output_names = ready.parts->outputs();
  std::vector<ProgramIo> program;
  for (const ImportedInput& input : ready.parts->inputs())
    program.push_back({.name = input.name, .dtype = input.type.dtype, .shape = input.type.shape});
  auto inputs = program_inputs(ready.parts->inputs(), program, request.inputs);
  if (!inputs.ok()) return inputs.take_error();
  ready.inputs = std::move(*inputs);
  return ready;
}

/// The model's CUDA text on the emulator.
Result<ReadyModel> prepare_emulated(const ModelRequest& request, const CompileOptions& options) {
  ReadyModel ready;
  const auto start = Clock::now();
  WEFT_ASSIGN_OR_RETURN(ready.compilation, compile_model(request.model, options));
  const Compilation& c = *ready.compilation;
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<KernelLauncher> launcher,
                        emulate_kernels(functions_of(c), options.cache_dir));
  ready.totals = totals_of(c);
  ready.unique_kernels = c.unique_kernels;
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(c.program, std::move(launcher)));
  WEFT_RETURN_IF_ERROR(take_inputs(request.inputs, &ready));
  ready.compile_ms = milliseconds_since(start);
  return ready;
}

/// The model imported, for the interpreter.
Result<ReadyModel> prepare_import(const ModelRequest& request, CompileOptions options) {
  ReadyModel ready;
  options.stop_after = kImportPass;
  const CompileOptions small = with_small_values(options);
  auto imported = compile_model(request.model, small);
  if (!imported.ok()) {
    if (auto parts = prepare_parts(request, options, imported.error())) return std::move(*parts);
    if (has_more_values(options, small)) imported = compile_model(request.model, options);
  }
  WEFT_ASSIGN_OR_RETURN(ready.compilation, std::move(imported));
  WEFT_RETURN_IF_ERROR(take_inputs(request.inputs, &ready));
  return ready;
}

}  // namespace

bool is_artefact(const std::string& path) { return path.size() > 5 && path.ends_with(".weft"); }

Result<CompileOptions> options_for_target(const ModelRequest& request) {
  CompileOptions options = request.options;
  if (request.target == "cpu" || request.target == "interp") return options;
  WEFT_ASSIGN_OR_RETURN(std::vector<Target> devices,
                        targets_by_names(request.target == "simt" ? kEmulated : request.target));
  if (devices.size() != 1)
    return invalid_input("--target " + request.target + ": one target; only compile takes several");
  options.device = std::move(devices.front());
  return options;
}

Result<CompileOptions> options_for_machine(const ModelRequest& request) {
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, options_for_target(request));
  if (options.device) WEFT_RETURN_IF_ERROR(check_runs_here(*options.device));
  if (options.device && options.device->is_gpu()) {
    // Without a device the rest would be in vain.
    if (const auto device = open_cuda_device(); !device.ok()) return device.error();
    options.device_code = true;
  }
  return options;
}

Result<ReadyModel> prepare_model(const ModelRequest& request) {
  const auto start = Clock::now();
  if (is_artefact(request.model)) return prepare_artefact(request);
  if (request.target == "interp" || request.target == "simt") {
    WEFT_ASSIGN_OR_RETURN(CompileOptions options, options_for_target(request));
    return request.target == "interp" ? prepare_import(request, std::move(options))
                                      : prepare_emulated(request, options);
  }
  WEFT_ASSIGN_OR_RETURN(const CompileOptions options, options_for_machine(request));
  ReadyModel ready;
  const CompileOptions small = with_small_values(options);
  auto compiled = load_or_compile(request.model, small);
  if (!compiled.ok()) {
    if (auto parts = prepare_parts(request, options, compiled.error())) return std::move(*parts);
    if (has_more_values(options, small)) compiled = load_or_compile(request.model, options);
  }
  WEFT_ASSIGN_OR_RETURN(CompiledModel model, std::move(compiled));
  for (const ProgramIo& io : model.program.outputs) ready.output_names.push_back(io.name);
  const std::vector<ProgramIo> program = model.program.inputs;
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(std::move(model.program), options.threads));
  ready.notes = device_notes(*ready.session);
  ready.compile_ms = milliseconds_since(start);
  ready.compilation = std::move(model.compilation);
  ready.stored = std::move(model.stored);
  ready.timings = std::move(model.timings);
  ready.totals = model.totals;
  ready.unique_kernels = model.unique_kernels;
  ready.kernels_from_cache = model.kernels_from_cache;
  WEFT_ASSIGN_OR_RETURN(ready.inputs, program_inputs(model.inputs, program, request.inputs));
  return ready;
}

Result<std::vector<HostTensor>> run_model(ReadyModel& model) {
  if (model.parts) return model.parts->run(model.inputs);
  if (model.session) return model.session->run(model.inputs);
  return interpret(model.compilation->graph, model.inputs);
}

}  // namespace weft
