#include "tools/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "driver/device_target.h"
#include "driver/emulated_kernels.h"
#include "driver/generate_kernels.h"
#include "driver/plan_totals.h"
#include "interp/interpreter.h"
#include "io/npz.h"
#include "io/tensor_file.h"
#include "runtime/artefact.h"
#include "runtime/load_programs.h"
#include "support/printable.h"
#include "tile/check/fits.h"

namespace weft {

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.add_option("model", o.model, "A .onnx file, a printed .graph or a .weft artefact")
      ->required();
  app.add_option(
      "--input", o.inputs,
      "NAME=FILE: an input from a .npy, .npz member (FILE.npz:NAME) or .pb file; repeatable");
  app.add_option("--inputs", o.inputs_npz, "FILE.npz with the inputs by name");
  app.add_option("--bind", o.binds, "DIM=N: a symbolic dimension; repeatable");
  app.add_option("--seed", o.seed, "Seed of random inputs");
  app.add_option("--target", o.target,
                 "cpu (default), cuda (the GPU that is there), interp (the reference "
                 "interpreter), simt (CUDA text on an emulator) or a name of `weft targets`; "
                 "compile takes several GPUs, NAME,NAME");
  app.add_option("--plan", o.planner, "none, xla or auto (default)");
  app.add_option("--threads", o.threads,
                 "Threads of a run; default: the cores that the process may use")
      ->check(CLI::Range(0, 1024));
  app.add_option("--cache", o.cache, "Folder of the compile cache");
  app.add_flag("--no-cache", o.no_cache, "Neither read nor write a cache");
  app.add_flag("--fast-math", o.fast_math,
               "Allow reassociation and substitutions that the plan then lists");
  app.add_flag("--timings", o.timings, "Print the milliseconds of each pass");
  app.add_option("--dump-dir", o.dump_dir, "Write every level after each pass into a folder");
  app.add_flag("--verify-cache", o.verify_cache, "Hash whole files instead of samples");
  app.add_flag("--unroll", o.unroll, "Write recurrences out");
  app.add_option("--vector-bytes", o.vector_bytes, "Use vectors of at most 16, 32 or 64 bytes")
      ->check(CLI::IsMember({16, 32, 64}));
}

bool is_artefact(const std::string& path) { return path.size() > 5 && path.ends_with(".weft"); }

namespace {

/// The device whose figures a plan for the emulator goes by.
constexpr const char* kEmulated = "h100-sxm";

std::vector<std::string> parts_of(const std::string& names) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Status check_target(const std::string& target) {
  if (target == "cpu" || target == "interp" || target == "simt" || target == "cuda") return {};
  for (const std::string& name : parts_of(target)) {
    if (name == "cuda") continue;
    const Result<Target> known = find_target(name);
    if (!known.ok()) return known.error();
  }
  return {};
}

Result<std::vector<Target>> device_targets(const std::string& names) {
  std::vector<Target> targets;
  for (const std::string& name : parts_of(names)) {
    WEFT_ASSIGN_OR_RETURN(targets.emplace_back(), target_by_name(name));
  }
  return targets;
}

Result<std::map<std::string, HostTensor>> load_given_inputs(const ModelOptions& o) {
  std::map<std::string, HostTensor> given;
  if (!o.inputs_npz.empty()) {
    WEFT_ASSIGN_OR_RETURN(given, load_npz(o.inputs_npz));
  }
  for (const std::string& text : o.inputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid_input("--input " + text + ": write NAME=FILE");
    WEFT_ASSIGN_OR_RETURN(given[text.substr(0, equals)], load_tensor(text.substr(equals + 1)));
  }
  return given;
}

namespace {

/// Once for all steps and threads of a compilation that meet the same trouble.
void print_warning(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (!printed.insert(message).second) return;
  std::fputs(("weft: warning: " + printable(message) + "\n").c_str(), stderr);
}

}  // namespace

Result<CompileOptions> compile_options(const ModelOptions& o,
                                       const std::map<std::string, HostTensor>& given) {
  CompileOptions c;
  c.planner = o.planner;
  c.threads = o.threads;
  c.max_vector_bytes = o.vector_bytes;
  if (o.target != "cpu" && o.target != "interp") {
    WEFT_ASSIGN_OR_RETURN(std::vector<Target> devices,
                          device_targets(o.target == "simt" ? kEmulated : o.target));
    if (devices.size() != 1) {
      return invalid_input("--target " + o.target + ": one target; only compile takes several");
    }
    c.device = std::move(devices.front());
  }
  c.fast_math = o.fast_math;
  c.unroll = o.unroll;
  c.verify_cache = o.verify_cache;
  c.dump_dir = o.dump_dir;
  c.import.known_inputs = given;
  for (const std::string& text : o.binds) {
    const size_t equals = text.rfind('=');
    char* end = nullptr;
    const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
    const long long n = std::strtoll(number.c_str(), &end, 10);
    if (number.empty() || *end != '\0' || n < 0)
      return invalid_input("--bind " + text + ": write DIM=N with N a number");
    c.import.bind[text.substr(0, equals)] = n;
  }
  if (!o.no_cache) c.cache_dir = o.cache.empty() ? default_cache_dir() : o.cache;
  std::error_code failed;
  c.reproducer_dir = std::filesystem::temp_directory_path(failed).string();
  c.warn = print_warning;
  return c;
}

namespace {

/// Integers from `range`, where nothing is known 0 or 1.
HostTensor random_tensor(const TensorType& type, const std::optional<Interval>& range,
                         std::mt19937_64& random) {
  HostTensor t(type.dtype, type.shape);
  std::normal_distribution<float> normal;
  const Interval r = type.dtype == DType::kBool ? Interval{0, 1} : range.value_or(Interval{0, 1});
  const uint64_t span = static_cast<uint64_t>(r.hi) - static_cast<uint64_t>(r.lo) + 1;
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_float(type.dtype)) {
      t.set_double(i, normal(random));
    } else {
      const uint64_t offset = span == 0 ? random() : random() % span;
      t.set_int(i, static_cast<int64_t>(static_cast<uint64_t>(r.lo) + offset));
    }
  }
  return t;
}

/// One input of a program: the value given for it, which must have its type, else a random one.
Result<HostTensor> input_value(const std::string& name, const TensorType& type,
                               const std::optional<Interval>& range,
                               const std::map<std::string, HostTensor>& given,
                               std::mt19937_64& random) {
  const auto found = given.find(name);
  if (found == given.end()) return random_tensor(type, range, random);
  const TensorType has{found->second.dtype(), found->second.shape()};
  if (has == type) return found->second;
  return invalid_input("input " + name + " is " + print(has) + ", the model wants " + print(type));
}

/// Names that the model does not have are mistakes, not to be passed over.
Status check_names(const std::map<std::string, HostTensor>& given,
                   const std::vector<std::string>& inputs) {
  for (const auto& [name, value] : given) {
    if (std::ranges::find(inputs, name) != inputs.end()) continue;
    return invalid_input(fmt::format("the model has no input '{}'; its inputs are: {}", name,
                                     fmt::join(inputs, ", ")));
  }
  return {};
}

}  // namespace

std::vector<ProgramIo> graph_inputs(const Graph& graph) {
  std::vector<ProgramIo> out;
  for (const ValueId v : graph.inputs) {
    const auto& value = graph.values[static_cast<size_t>(v)];
    out.push_back({value.name, value.type.dtype, value.type.shape});
  }
  return out;
}

Result<std::vector<HostTensor>> program_inputs(const std::vector<ImportedInput>& inputs,
                                               const std::vector<ProgramIo>& program,
                                               const std::map<std::string, HostTensor>& given,
                                               uint64_t seed) {
  std::mt19937_64 random(seed + 1);
  std::vector<const ImportedInput*> imported(program.size());
  std::vector<std::string> names;  // of all that may be given
  for (const ImportedInput& input : inputs) {
    names.push_back(input.name);
    if (input.graph_input >= 0) imported[static_cast<size_t>(input.graph_input)] = &input;
  }
  std::vector<HostTensor> out;
  for (size_t i = 0; i < imported.size(); ++i) {
    const ProgramIo& io = program[i];
    const std::string& name = imported[i] != nullptr ? imported[i]->name : io.name;
    const auto range = imported[i] != nullptr ? imported[i]->range : std::nullopt;
    if (imported[i] == nullptr) names.push_back(name);
    WEFT_ASSIGN_OR_RETURN(HostTensor tensor,
                          input_value(name, {io.dtype, io.shape}, range, given, random));
    out.push_back(std::move(tensor));
  }
  WEFT_RETURN_IF_ERROR(check_names(given, names));
  return out;
}

namespace {

/// An artefact with inputs for it; of several programs, the one that fits the given shapes, else
/// the first.
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
bool fits(const Program& program, const std::map<std::string, HostTensor>& given) {
  return std::ranges::all_of(program.inputs, [&](const ProgramIo& io) {
    const auto it = given.find(io.name);
    return it == given.end() || it->second.shape() == io.shape;
  });
}

/// What of a GPU's program runs otherwise here than it was compiled for.
void print_device_notes(const Session& session) {
  if (session.executable().device() == nullptr) return;
  for (const std::string& note : session.executable().device()->notes())
    fmt::print(stderr, "weft: {}\n", note);
}

Result<ReadyModel> prepare_artefact(const ModelOptions& o,
                                    const std::map<std::string, HostTensor>& given) {
  ReadyModel ready;
  const auto start = std::chrono::steady_clock::now();
  const Target host = host_cpu_target(o.threads, o.vector_bytes);
  ArtefactOptions options;
  WEFT_ASSIGN_OR_RETURN(std::vector<Program> programs,
                        load_artefact(o.model, host.features, options));
  std::shared_ptr<const Executable> executable;
  if (!programs.front().arch.empty()) {
    WEFT_ASSIGN_OR_RETURN(const ModelPrograms loaded, load_programs(std::move(programs)));
    executable = *std::ranges::find_if(
        loaded, [&](const auto& e) { return fits(e->program(), given) || e == loaded.back(); });
  } else {
    const auto best = std::ranges::find_if(
        programs, [&](const Program& p) { return fits(p, given) || &p == &programs.back(); });
    WEFT_ASSIGN_OR_RETURN(executable, Executable::create(std::move(*best)));
  }
  const Program& program = executable->program();
  ready.totals = explained_totals(program);
  ready.unique_kernels = static_cast<int64_t>(program.kernels.size());
  std::mt19937_64 random(o.seed + 1);
  std::vector<std::string> names;
  for (const ProgramIo& io : program.inputs) {
    names.push_back(io.name);
    std::optional<Interval> range;
    if (io.lowest <= io.highest) range = Interval{io.lowest, io.highest};
    WEFT_ASSIGN_OR_RETURN(HostTensor tensor,
                          input_value(io.name, {io.dtype, io.shape}, range, given, random));
    ready.inputs.push_back(std::move(tensor));
  }
  WEFT_RETURN_IF_ERROR(check_names(given, names));
  for (const ProgramIo& io : program.outputs) ready.output_names.push_back(io.name);
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(std::move(executable), o.threads));
  print_device_notes(*ready.session);
  ready.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return ready;
}

}  // namespace

namespace {

/// The model's CUDA text on the emulator.
Result<ReadyModel> prepare_emulated(const ModelOptions& o, const CompileOptions& options,
                                    const std::map<std::string, HostTensor>& given) {
  ReadyModel ready;
  const auto start = std::chrono::steady_clock::now();
  WEFT_ASSIGN_OR_RETURN(ready.compilation, compile_model(o.model, options));
  Compilation& c = *ready.compilation;
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<KernelLauncher> launcher,
                        emulate_kernels(c.kernels, options.cache_dir));
  ready.output_names = c.graph.output_names;
  ready.totals = plan_totals(c);
  ready.unique_kernels = c.unique_kernels;
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(c.program, std::move(launcher)));
  WEFT_ASSIGN_OR_RETURN(ready.inputs,
                        program_inputs(c.imported.inputs, graph_inputs(c.graph), given, o.seed));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  ready.compile_ms = spent.count();
  if (o.timings) print_timings(c.timings, 0, c.unique_kernels);
  return ready;
}

/// The model imported, for the interpreter.
Result<ReadyModel> prepare_import(const ModelOptions& o, const CompileOptions& options,
                                  const std::map<std::string, HostTensor>& given) {
  ReadyModel ready;
  WEFT_ASSIGN_OR_RETURN(ready.compilation, compile_model(o.model, options));
  Compilation& c = *ready.compilation;
  ready.output_names = c.graph.output_names;
  WEFT_ASSIGN_OR_RETURN(ready.inputs,
                        program_inputs(c.imported.inputs, graph_inputs(c.graph), given, o.seed));
  if (o.timings) print_timings(c.timings, 0, 0);
  return ready;
}

}  // namespace

Result<ReadyModel> prepare_model(const ModelOptions& o) {
  WEFT_RETURN_IF_ERROR(check_target(o.target));
  WEFT_ASSIGN_OR_RETURN(const auto given, load_given_inputs(o));
  const auto start = std::chrono::steady_clock::now();
  if (is_artefact(o.model)) return prepare_artefact(o, given);
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, compile_options(o, given));
  if (o.target == "interp") {
    options.stop_after = kImportPass;
    return prepare_import(o, options, given);
  }
  if (o.target == "simt") return prepare_emulated(o, options, given);
  if (options.device && options.device->is_gpu()) {
    // Without a device the rest would be in vain.
    if (const auto device = open_cuda_device(); !device.ok()) return device.error();
    options.device_code = true;
  }
  ReadyModel ready;
  WEFT_ASSIGN_OR_RETURN(CompiledModel model, load_or_compile(o.model, options));
  for (const ProgramIo& io : model.program.outputs) ready.output_names.push_back(io.name);
  const std::vector<ProgramIo> program = model.program.inputs;
  WEFT_ASSIGN_OR_RETURN(ready.session, Session::create(std::move(model.program), o.threads));
  print_device_notes(*ready.session);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  ready.compile_ms = spent.count();
  ready.compilation = std::move(model.compilation);
  ready.stored = std::move(model.stored);
  ready.totals = model.totals;
  ready.unique_kernels = model.unique_kernels;
  ready.kernels_from_cache = model.kernels_from_cache;
  WEFT_ASSIGN_OR_RETURN(ready.inputs, program_inputs(model.inputs, program, given, o.seed));
  if (o.timings) print_timings(model.timings, model.kernels_from_cache, model.unique_kernels);
  return ready;
}

Result<std::vector<HostTensor>> run_model(ReadyModel& model) {
  if (model.session) return model.session->run(model.inputs);
  return interpret(model.compilation->graph, model.inputs);
}

void print_timings(const std::vector<PassTiming>& timings, int64_t kernels_from_cache,
                   int64_t unique_kernels) {
  double total = 0;
  for (const PassTiming& t : timings) {
    fmt::print(stderr, "{:>10.2f} ms  {}\n", t.milliseconds, t.name);
    total += t.milliseconds;
  }
  fmt::print(stderr, "{:>10.2f} ms  in all; {} of {} distinct kernels from the cache\n", total,
             kernels_from_cache, unique_kernels);
}

}  // namespace weft
