#include "tools/model_options.h"
#include "tools/progress_bar.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

#include "driver/cache/user_cache.h"
#include "driver/measured_rows.h"
#include "driver/models/device_target.h"
#include "driver/plan_file.h"
#include "io/npz.h"
#include "io/tensor_file.h"
#include "plan/planners/planner_parameters.h"
#include "plan/planners/planners.h"
#include "support/printable.h"

namespace weft {

std::string planner_help() {
  std::string help = "How kernels are formed: ";
  for (const Planner& planner : planners()) {
    const bool is_first = &planner == &planners().front();
    help += fmt::format("{}{} ({})", is_first ? "" : "; ", planner.name, planner.help);
  }
  return help + "; auto is the default";
}

namespace {

std::string souffle_help() {
  std::string help = "A step of Souffle's ablation in the place of a planner: ";
  for (size_t v = 0; v < souffle_planners().size(); ++v)
    help += fmt::format("{}V{} ({})", v == 0 ? "" : "; ", v, souffle_planners()[v].help);
  return help;
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.add_option(
         "model", o.model,
         "A .onnx file, an HLO module (.hlo, .hlo.gz), a printed .graph or a .weft artefact")
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
  app.add_option(
      "--plan", o.planner,
      planner_help() + "; FILE.plan: the plan that `dump --stage plan` printed, as it stands");
  app.add_option_function<std::string>(
         "--souffle", [&o](const std::string& step) { o.planner = "souffle-v" + step.substr(1); },
         souffle_help())
      ->check(CLI::IsMember({"V0", "V1", "V2", "V3", "V4"}))
      ->excludes("--plan");
  app.add_option(
      "--compositions", o.compositions,
      "What a planner may make of expressions that share a kernel, apart by commas: "
      "leaf (one iteration space), block (stages of a block that hand each other values "
      "on chip), grid (kernels one after another in one launch), chain (contractions in a "
      "loop that carries), recur (all steps of a loop in one launch), cluster (launches of grid "
      "and "
      "recur on the blocks of one cluster); default: all for auto, best and subprogram on GPUs, "
      "all "
      "but recur and cluster for these on CPUs, else leaf and chain");
  app.add_option_function<std::string>(
         "--chains",
         [&o](const std::string& which) {
           if (which == "deep") o.parameters += o.parameters.empty() ? "flat=0" : ",flat=0";
         },
         "Tiling expressions of chains that planners search: all, or deep (no loops of single "
         "contractions behind each other, as in Chimera); the same as --parameters flat=0")
      ->check(CLI::IsMember({"all", "deep"}));
  app.add_option("--parameters", o.parameters,
                 "NAME=NUMBER,…: numbers of the planner: " + planner_parameters_help());
  app.add_option("--threads", o.threads,
                 "Threads of a run; default: the cores that the process may use")
      ->check(CLI::Range(0, 1024));
  app.add_option("--cache", o.cache, "Folder of the compile cache");
  app.add_flag("--no-cache", o.no_cache, "Neither read nor write a cache");
  app.add_flag("--fast-math", o.fast_math,
               "Allow reassociation and substitutions that the plan then lists");
  app.add_option("--precision", o.precision,
                 "In which type contractions multiply: model (default), or bf16: their factors are "
                 "rounded, weights when they are compiled, sums stay float32; explain lists them");
  app.add_flag("--timings", o.timings, "Print the milliseconds of each pass");
  app.add_option("--dump-dir", o.dump_dir, "Write every level after each pass into a folder");
  app.add_flag("--verify-cache", o.verify_cache, "Hash whole files instead of samples");
  app.add_flag("--unroll", o.unroll, "Write recurrences out");
  app.add_option("--library", o.library,
                 "FILE: the performance library of `weft tune`, whose measurements take the place "
                 "of predictions");
  app.add_option("--vector-bytes", o.vector_bytes, "Use vectors of at most 16, 32 or 64 bytes")
      ->check(CLI::IsMember({16, 32, 64}));
}

namespace {

/// Tensors given by --input and --inputs, by name.
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

/// Once for all steps and threads of a compilation that meet the same trouble.
void print_warning(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (!printed.insert(message).second) return;
  std::fputs(("weft: warning: " + printable(message) + "\n").c_str(), stderr);
}

/// DIM=N of --bind.
Result<std::map<std::string, int64_t>> bindings(const std::vector<std::string>& binds) {
  std::map<std::string, int64_t> extents;
  for (const std::string& text : binds) {
    const size_t equals = text.rfind('=');
    char* end = nullptr;
    const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
    const long long n = std::strtoll(number.c_str(), &end, 10);
    if (number.empty() || *end != '\0' || n < 0)
      return invalid_input("--bind " + text + ": write DIM=N with N a number");
    extents[text.substr(0, equals)] = n;
  }
  return extents;
}

}  // namespace

Result<ModelRequest> model_request(const ModelOptions& o) {
  WEFT_RETURN_IF_ERROR(check_target_names(o.target));
  ModelRequest request;
  request.model = o.model;
  request.target = o.target;
  request.inputs.seed = o.seed;
  WEFT_ASSIGN_OR_RETURN(request.inputs.values, load_given_inputs(o));
  CompileOptions& c = request.options;
  if (is_plan_file(o.planner)) {
    WEFT_RETURN_IF_ERROR(read_plan_file(o.planner, &c));
    if (!o.compositions.empty())
      return invalid_input("--compositions is for planners, and " + o.planner +
                           " says how each kernel is composed");
    if (!o.parameters.empty())
      return invalid_input("--parameters is for planners, and " + o.planner + " is a plan");
  } else {
    c.planner = o.planner;
    c.compositions = o.compositions;
    if (!o.compositions.empty()) WEFT_RETURN_IF_ERROR(parse_composition_kinds(o.compositions));
    c.planner_parameters = o.parameters;
    if (!o.parameters.empty()) {
      WEFT_RETURN_IF_ERROR(find_planner(o.planner));
      WEFT_RETURN_IF_ERROR(parse_planner_parameters(o.parameters, o.planner));
    }
  }
  c.threads = o.threads;
  c.max_vector_bytes = o.vector_bytes;
  c.fast_math = o.fast_math;
  WEFT_ASSIGN_OR_RETURN(c.precision, parse_precision(o.precision));
  if (c.precision != Precision::kModel && o.target == "interp")
    return invalid_input(
        "--precision is for compiled models; --target interp runs the model's types");
  c.unroll = o.unroll;
  c.verify_cache = o.verify_cache;
  c.dump_dir = o.dump_dir;
  if (!o.library.empty()) WEFT_RETURN_IF_ERROR(read_library(o.library, &c));
  c.import.known_inputs = request.inputs.values;
  WEFT_ASSIGN_OR_RETURN(c.import.bind, bindings(o.binds));
  if (!o.no_cache) c.cache_dir = o.cache.empty() ? default_cache_dir() : o.cache;
  std::error_code failed;
  c.reproducer_dir = std::filesystem::temp_directory_path(failed).string();
  c.warn = print_warning;
  return request;
}

Result<ReadyModel> ready_model(const ModelOptions& options) {
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(options));
  auto prepared = [&] {
    const ProgressBar bar(&request.options);
    return prepare_model(request);
  }();
  WEFT_ASSIGN_OR_RETURN(ReadyModel ready, std::move(prepared));
  for (const std::string& note : ready.notes) fmt::print(stderr, "weft: {}\n", note);
  if (options.timings && !ready.timings.empty())
    print_timings(ready.timings, ready.kernels_from_cache, ready.unique_kernels);
  return ready;
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
