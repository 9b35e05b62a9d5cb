#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

#include "codegen/cpu/code_features.h"
#include "driver/arena_peak.h"
#include "driver/compile_device_kernels.h"
#include "driver/compiler.h"
#include "driver/explain_json.h"
#include "driver/explain_text.h"
#include "driver/generate_kernels.h"
#include "driver/graph_file.h"
#include "driver/lower_kernels.h"
#include "driver/program_builder.h"
#include "driver/reproducer.h"
#include "expr/assign_layouts.h"
#include "expr/express.h"
#include "expr/open_axes.h"
#include "expr/sink_constants.h"
#include "expr/widen_halves.h"
#include "kernel/divide_by_invariants.h"
#include "kernel/prefetch_rows.h"
#include "kernel/shorten_exponentials.h"
#include "kernel/stream_outputs.h"
#include "rewrite/fold_constants.h"
#include "rewrite/inline_constant_if.h"
#include "rewrite/merge_equal_nodes.h"
#include "rewrite/narrow_regions.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/simplify_graph.h"
#include "rewrite/unroll_scans.h"
#include "runtime/thread_pool.h"

namespace weft {

namespace {

/// A folded constant may be larger than its operands up to this size.
constexpr int64_t kFoldBytes = int64_t{1} << 16;
/// A constant up to this size is made in each region that reads it.
constexpr int64_t kNarrowBytes = 64;
/// Times that the passes over the graph run at most. What one round uncovers, the next finds: a
/// condition that folds makes its branch part of the graph, where the captures fold in turn.
constexpr int kMaxRounds = 8;
/// Recurrences of more steps stay loops even with --unroll.
constexpr int64_t kUnrollTrips = 1024;
/// Of tensors that a device's kernels access in vectors.
constexpr int32_t kDeviceAlignment = 16;

Result<bool> run_fold_constants(Compilation& c) { return fold_constants(c.graph, kFoldBytes); }
Result<bool> run_inline_if(Compilation& c) { return inline_constant_if(c.graph); }
Result<bool> run_narrow_regions(Compilation& c) { return narrow_regions(c.graph, kNarrowBytes); }
Result<bool> run_unroll(Compilation& c) {
  return c.options.unroll && unroll_scans(c.graph, kUnrollTrips);
}
Result<bool> run_simplify(Compilation& c) { return simplify_graph(c.graph); }
Result<bool> run_merge_equal(Compilation& c) { return merge_equal_nodes(c.graph); }
Result<bool> run_remove_dead(Compilation& c) { return remove_dead_nodes(c.graph); }
Result<bool> run_express(Compilation& c) {
  WEFT_ASSIGN_OR_RETURN(c.tensors, express(c.graph));
  return true;
}

template <typename F>
void for_each_program(TensorProgram& program, F&& f) {
  f(program);
  for (OpaqueExpr& o : program.opaques) {
    for (auto& region : o.regions) for_each_program(*region, f);
  }
}

Result<bool> run_sink_constants(Compilation& c) {
  sink_constants(c.tensors);
  return true;
}

Result<bool> run_fold_movement(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { fold_movement(p); });
  return true;
}
Result<bool> run_split_axes(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { split_axes(p); });
  return true;
}
Result<bool> run_sink_movement(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { sink_movement(p); });
  return true;
}
Result<bool> run_widen_operands(Compilation& c) {
  if (c.target.is_gpu()) return true;
  for_each_program(c.tensors, [](TensorProgram& p) { widen_operands(p); });
  return true;
}
Result<bool> run_pack(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { remove_dead_expressions(p); });
  c.unfused_arena_bytes = unfused_arena_peak(c.tensors, !c.target.is_gpu());
  if (c.options.planner != "auto") return true;
  for_each_program(c.tensors, [](TensorProgram& p) { pack_contractions(p); });
  return true;
}
Result<bool> run_remove_dead_expressions(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { remove_dead_expressions(p); });
  return true;
}
Result<bool> run_assign_layouts(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { assign_layouts(p); });
  return true;
}
/// What depends on the dimensions that the model leaves open. Where the model at the other binding
/// is another program, nothing is known of it.
Result<bool> run_mark_open(Compilation& c) {
  Compilation* other = c.other ? c.other->get() : nullptr;
  if (other != nullptr && mark_open_axes(c.tensors, other->tensors)) return true;
  c.other.reset();
  return false;
}
Result<bool> plan(Compilation& c) {
  PlanOptions options;
  options.planner = c.options.planner;
  options.fast_math = c.options.fast_math;
  WEFT_ASSIGN_OR_RETURN(c.plan, plan_fusion(c.tensors, c.target, options));
  c.planned_arena_bytes = arena_peak(c.tensors, c.plan);
  return true;
}

/// The tensor program with no contractions packed.
Status express_apart(Compilation& c) {
  for (const auto step :
       {run_express, run_sink_constants, run_fold_movement, run_split_axes, run_sink_movement,
        run_widen_operands, run_remove_dead_expressions, run_assign_layouts}) {
    auto done = step(c);
    if (!done.ok()) return done.take_error();
  }
  return {};
}

/// What packed contractions make lives until the last of their readers: where that raises the peak
/// of the arena, they are planned apart.
Result<bool> run_plan(Compilation& c) {
  WEFT_ASSIGN_OR_RETURN(const bool planned, plan(c));
  if (c.options.planner != "auto" || c.planned_arena_bytes <= c.unfused_arena_bytes) return planned;
  Compilation apart;
  apart.options = c.options;
  apart.target = c.target;
  apart.graph = c.graph;
  apart.other = std::move(c.other);
  WEFT_RETURN_IF_ERROR(express_apart(apart));
  if (apart.other) WEFT_RETURN_IF_ERROR(express_apart(*apart.other->get()));
  for (const auto step : {run_mark_open, plan}) {
    auto done = step(apart);
    if (!done.ok()) return done.take_error();
  }
  if (apart.planned_arena_bytes >= c.planned_arena_bytes) return planned;
  c.tensors = std::move(apart.tensors);
  c.plan = std::move(apart.plan);
  c.other = std::move(apart.other);
  c.planned_arena_bytes = apart.planned_arena_bytes;
  return planned;
}

Result<bool> run_lower(Compilation& c) {
  WEFT_RETURN_IF_ERROR(lower_kernels(c));
  for (const KernelFunction& f : c.kernels) {
    if (multiplies_by(f, KernelUnit::kM16N8K8TF32))
      c.substitutions.push_back(f.name + ": products of float32 are rounded to tf32");
  }
  return true;
}

/// Rewrites of kernels for a CPU: `rewrite` sees each of them.
template <typename F>
Result<bool> rewrite_kernels(Compilation& c, F&& rewrite) {
  if (c.target.is_gpu()) return false;
  bool changed = false;
  for (KernelFunction& f : c.kernels) {
    if (!rewrite(f)) continue;
    changed = true;
    if (c.options.verify) WEFT_RETURN_IF_ERROR(verify_kernel(f));
  }
  return changed;
}
Result<bool> run_stream_outputs(Compilation& c) {
  return rewrite_kernels(c, [&](KernelFunction& f) { return stream_outputs(f, c.target); });
}
Result<bool> run_prefetch_rows(Compilation& c) {
  return rewrite_kernels(c, [&](KernelFunction& f) { return prefetch_rows(f, c.target); });
}
Result<bool> run_divide_by_invariants(Compilation& c) {
  const auto& features = c.target.features;
  if (std::find(features.begin(), features.end(), "fma") == features.end()) return false;
  return rewrite_kernels(c, [&](KernelFunction& f) {
    const int replaced = divide_by_invariants(f, c.options.fast_math);
    if (replaced != 0 && c.options.fast_math) {
      c.substitutions.push_back(fmt::format(
          "{}: divisions by what a loop does not change are products: {}", f.name, replaced));
    }
    return replaced != 0;
  });
}
Result<bool> run_shorten_exponentials(Compilation& c) {
  if (!c.options.fast_math) return false;
  return rewrite_kernels(c, [&](KernelFunction& f) {
    const int shortened = shorten_exponentials(f, c.target);
    if (shortened != 0) {
      c.substitutions.push_back(
          fmt::format("{}: exponentials by the shorter recipe: {}", f.name, shortened));
    }
    return shortened != 0;
  });
}

void note_input_ranges(const ImportedModel& model, Program& program) {
  for (const ImportedInput& input : model.inputs) {
    if (input.graph_input < 0 || !input.range) continue;
    ProgramIo& io = program.inputs[static_cast<size_t>(input.graph_input)];
    io.lowest = input.range->lo;
    io.highest = input.range->hi;
  }
}

Result<bool> run_generate(Compilation& c) {
  const std::unique_ptr<CacheFolder> cache = open_cache(c.options);
  const auto generate = [&]() -> Result<std::vector<KernelImage>> {
    if (!c.target.is_gpu()) return generate_kernels(c, cache.get());
    if (!c.options.device_code) return describe_device_kernels(c);
    return compile_device_kernels(c, cache.get());
  };
  WEFT_ASSIGN_OR_RETURN(std::vector<KernelImage> images, generate());
  if (cache != nullptr) {
    WEFT_ASSIGN_OR_RETURN(c.files, ModelFiles::identify(c.imported.files, c.options.verify_cache));
  }
  WEFT_ASSIGN_OR_RETURN(BuiltProgram built,
                        build_program(c.tensors, c.plan, code_of_plan(c), c.target,
                                      {available_cores(), cache.get(), &c.files}));
  if (cache != nullptr) cache->trim();
  c.program = std::move(built.program);
  c.cached_constants = std::move(built.cached_constants);
  c.program.kernels = std::move(images);
  if (c.target.is_gpu()) {
    for (auto* list : {&c.program.inputs, &c.program.outputs}) {
      for (ProgramIo& io : *list) io.alignment = kDeviceAlignment;
    }
    if (c.options.device_code) c.program.arch = device_arch(c.target);
  }
  note_input_ranges(c.imported, c.program);
  c.program.model = c.model;
  c.program.target = c.target.name;
  if (!c.program.kernels.empty() && !c.target.is_gpu())
    c.program.required_features = code_features(c.target);
  c.program.explanation = explain_text(c);
  c.program.explanation_json = explain_json(c);
  return true;
}

Status verify_levels(const Compilation& c, const std::string& level) {
  if (level == "graph") return verify_graph(c.graph);
  if (level == "tensor-program") return verify_tensor_program(c.tensors);
  if (level == "plan") return verify_plan(c.tensors, c.plan);
  return {};
}

/// A level as it is after pass `number`; 0: as it was imported.
Status dump(const Compilation& c, int number, const std::string& pass, const std::string& level) {
  if (c.options.dump_dir.empty()) return {};
  const auto text = print_level(c, level);
  std::error_code failed;
  std::filesystem::create_directories(c.options.dump_dir, failed);
  std::ostringstream name;
  name << c.options.dump_dir << '/' << (number < 10 ? "0" : "") << number << '-' << pass << '.'
       << level;
  std::ofstream file(name.str());
  file << (text.ok() ? *text : text.error().message);
  if (!file.flush()) return invalid_input("cannot write '" + name.str() + "'");
  return {};
}

/// Runs the passes of a compilation: each is timed, verified and dumped.
class PipelineRunner {
 public:
  explicit PipelineRunner(Compilation& c) : c_(c) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(dump(c_, 0, "import", "graph"));
    const std::vector<Pass>& passes = pipeline();
    const auto after = std::find_if(passes.begin(), passes.end(), [](const Pass& pass) {
      return std::string_view(pass.level) != "graph";
    });
    const std::span<const Pass> rewrites(passes.begin(), after);
    const bool stops_within =
        std::any_of(rewrites.begin(), rewrites.end() - 1,
                    [&](const Pass& pass) { return c_.options.stop_after == pass.name; });
    bool changed = true;
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      WEFT_ASSIGN_OR_RETURN(changed, run_all(rewrites, round));
      if (stops_within) return {};
    }
    if (c_.options.stop_after == rewrites.back().name) return {};
    WEFT_ASSIGN_OR_RETURN(changed, run_all({after, passes.end()}, 0));
    return {};
  }

 private:
  /// Whether one of them changed anything; up to the one to stop after.
  Result<bool> run_all(std::span<const Pass> passes, int round) {
    bool any = false;
    for (const Pass& pass : passes) {
      const auto start = std::chrono::steady_clock::now();
      WEFT_ASSIGN_OR_RETURN(const bool changed, pass.run(c_));
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - start;
      add_time(pass.name, spent.count());
      any = any || changed;
      if (changed && c_.options.verify) {
        Status status = verify_levels(c_, pass.level);
        if (!status.ok())
          return Error{ErrorCode::kInternal,
                       std::string("after pass ") + pass.name + ": " + status.error().message};
      }
      if (changed || round == 0) WEFT_RETURN_IF_ERROR(dump(c_, ++dumped_, pass.name, pass.level));
      if (c_.options.stop_after == pass.name) break;
    }
    return any;
  }

  void add_time(const char* pass, double milliseconds) {
    for (PassTiming& timing : c_.timings) {
      if (timing.name == pass) {
        timing.milliseconds += milliseconds;
        return;
      }
    }
    c_.timings.push_back({pass, milliseconds});
  }

  Compilation& c_;
  int dumped_ = 0;
};

Status run_guarded(Compilation& c) {
  try {
    return PipelineRunner(c).run();
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  }
}

/// Whether the options ask for kernels of a CPU that serve other bindings too.
bool keeps_sizes_open(const CompileOptions& options) {
  if (options.fixed_sizes || (options.device && options.device->is_gpu())) return false;
  const auto reaches = [&](const Pass& pass) {
    const std::string_view level(pass.level);
    return (level == "plan" || level == "kernel" || level == "code") &&
           options.stop_after == pass.name;
  };
  return options.stop_after.empty() || std::any_of(pipeline().begin(), pipeline().end(), reaches);
}

Result<std::unique_ptr<Compilation>> run_pipeline(std::unique_ptr<Compilation> c) {
  c->target = c->options.device ? *c->options.device
                                : host_cpu_target(c->options.threads, c->options.max_vector_bytes);
  c->target.reduced_float32 = c->options.fast_math;
  if (c->options.stop_after == kImportPass) return c;
  const bool keeps_graph = !c->options.reproducer_dir.empty();
  const Graph before = keeps_graph ? c->graph : Graph();
  Status status = run_guarded(*c);
  if (status.ok()) return c;
  Error error = status.take_error();
  if (error.code == ErrorCode::kInternal && keeps_graph) {
    error.message = with_reproducer(c->options.reproducer_dir, before, c->options, error.message);
  }
  return error;
}

}  // namespace

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> kPasses = {
      // Those over the graph run until a round changes nothing.
      {"fold-constants", "graph", run_fold_constants},
      {"inline-constant-if", "graph", run_inline_if},
      {"narrow-regions", "graph", run_narrow_regions},
      {"unroll-scans", "graph", run_unroll},
      {"simplify", "graph", run_simplify},
      {"merge-equal-nodes", "graph", run_merge_equal},
      {"remove-dead-nodes", "graph", run_remove_dead},
      {"express", "tensor-program", run_express},
      {"sink-constants", "tensor-program", run_sink_constants},
      {"fold-movement", "tensor-program", run_fold_movement},
      {"split-axes", "tensor-program", run_split_axes},
      {"sink-movement", "tensor-program", run_sink_movement},
      {"widen-operands", "tensor-program", run_widen_operands},
      {"pack-contractions", "tensor-program", run_pack},
      {"remove-dead-expressions", "tensor-program", run_remove_dead_expressions},
      {"assign-layouts", "tensor-program", run_assign_layouts},
      {"mark-open-axes", "tensor-program", run_mark_open},
      {"plan", "plan", run_plan},
      {"lower", "kernel", run_lower},
      {"stream-outputs", "kernel", run_stream_outputs},
      {"prefetch-rows", "kernel", run_prefetch_rows},
      {"divide-by-invariants", "kernel", run_divide_by_invariants},
      {"shorten-exponentials", "kernel", run_shorten_exponentials},
      {"generate", "code", run_generate},
  };
  return kPasses;
}

CodeOfPlan code_of_plan(const Compilation& c) {
  CodeOfPlan code;
  for (const auto& [plan, numbers] : c.kernel_of) {
    std::vector<KernelCode>& list = code[plan];
    for (const size_t k : numbers) list.push_back({&c.kernels[k], c.image_of[k], c.arguments[k]});
  }
  return code;
}

Result<std::unique_ptr<Compilation>> compile_graph(Graph graph, const CompileOptions& options) {
  auto c = std::make_unique<Compilation>();
  c->options = options;
  c->graph = std::move(graph);
  try {
    return run_pipeline(std::move(c));
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  } catch (const std::bad_alloc&) {
    return invalid_input("the model needs more memory than there is");
  }
}

Result<std::unique_ptr<Compilation>> compile_model(const std::string& path,
                                                   const CompileOptions& options) {
  auto c = std::make_unique<Compilation>();
  c->model = path;
  c->options = options;
  try {
    const auto start = std::chrono::steady_clock::now();
    if (path.ends_with(".hlo")) {
      return Error{ErrorCode::kMissingDevice,
                   "'" + path + "': HLO modules cannot be read yet; use a .onnx or .graph file"};
    }
    if (path.ends_with(".weft")) {
      return invalid_input("'" + path +
                           "' is a compiled artefact: run, bench and explain take it; everything "
                           "else needs the model");
    }
    if (path.ends_with(".graph")) {
      WEFT_ASSIGN_OR_RETURN(c->graph, read_graph_file(path));
    } else {
      ImportOptions import = options.import;
      if (keeps_sizes_open(options)) {
        import.inputs_bound = [&](const std::vector<ImportedInput>& inputs) {
          c->other = OtherBinding::start(path, options, inputs);
        };
      }
      WEFT_ASSIGN_OR_RETURN(c->imported, import_onnx(path, import));
      c->graph = std::move(c->imported.graph);
      const bool specialised =
          std::any_of(c->imported.inputs.begin(), c->imported.inputs.end(),
                      [](const ImportedInput& input) { return input.specialised.has_value(); });
      if (specialised) c->other.reset();
    }
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    c->timings.push_back({kImportPass, spent.count()});
    return run_pipeline(std::move(c));
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  } catch (const std::bad_alloc&) {
    return invalid_input(path + ": the model needs more memory than there is");
  }
}

}  // namespace weft
