#include <chrono>
#include <fstream>
#include <sstream>

#include "driver/compiler.h"
#include "driver/generate_kernels.h"
#include "driver/program_builder.h"
#include "expr/assign_layouts.h"
#include "expr/express.h"
#include "expr/sink_constants.h"
#include "lower/lower.h"
#include "rewrite/fold_constants.h"
#include "rewrite/inline_constant_if.h"
#include "rewrite/merge_equal_nodes.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/simplify_graph.h"
#include "rewrite/unroll_scans.h"
#include "runtime/thread_pool.h"

namespace weft {

namespace {

/// A folded constant may be larger than its operands up to this size.
constexpr int64_t kFoldBytes = int64_t{1} << 16;
/// Recurrences of more steps stay loops even with --unroll.
constexpr int64_t kUnrollTrips = 1024;

Status run_fold_constants(Compilation& c) {
  fold_constants(c.graph, kFoldBytes);
  return {};
}
Status run_simplify(Compilation& c) {
  simplify_graph(c.graph);
  return {};
}
Status run_inline_if(Compilation& c) {
  inline_constant_if(c.graph);
  return {};
}
Status run_unroll(Compilation& c) {
  if (c.options.unroll) unroll_scans(c.graph, kUnrollTrips);
  return {};
}
Status run_merge_equal(Compilation& c) {
  merge_equal_nodes(c.graph);
  return {};
}
Status run_remove_dead(Compilation& c) {
  remove_dead_nodes(c.graph);
  return {};
}
Status run_express(Compilation& c) {
  WEFT_ASSIGN_OR_RETURN(c.tensors, express(c.graph));
  return {};
}

template <typename F>
void for_each_program(TensorProgram& program, F&& f) {
  f(program);
  for (OpaqueExpr& o : program.opaques) {
    for (auto& region : o.regions) for_each_program(*region, f);
  }
}

Status run_sink_constants(Compilation& c) {
  sink_constants(c.tensors);
  return {};
}

Status run_fold_movement(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { fold_movement(p); });
  return {};
}
Status run_split_axes(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { split_axes(p); });
  return {};
}
Status run_sink_movement(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { sink_movement(p); });
  return {};
}
Status run_pack(Compilation& c) {
  if (c.options.planner != "auto") return {};
  for_each_program(c.tensors, [](TensorProgram& p) { pack_contractions(p); });
  return {};
}
Status run_remove_dead_expressions(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { remove_dead_expressions(p); });
  return {};
}
Status run_assign_layouts(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { assign_layouts(p); });
  return {};
}
Status run_plan(Compilation& c) {
  PlanOptions options;
  options.planner = c.options.planner;
  options.fast_math = c.options.fast_math;
  WEFT_ASSIGN_OR_RETURN(c.plan, plan_fusion(c.tensors, c.target, options));
  return {};
}

Status lower_plan(Compilation& c, const FusionPlan& plan) {
  std::vector<size_t>& numbers = c.kernel_of[&plan];
  for (const PlannedKernel& kernel : plan.kernels) {
    WEFT_ASSIGN_OR_RETURN(KernelFunction f, lower_to_kernel(kernel.schedule.program,
                                                            kernel.schedule.scopes, c.target));
    if (c.options.tamper) c.options.tamper(f);
    if (c.options.verify) WEFT_RETURN_IF_ERROR(verify_kernel(f));
    numbers.push_back(c.kernels.size());
    c.kernels.push_back(std::move(f));
  }
  for (const auto& regions : plan.regions) {
    for (const auto& region : regions) WEFT_RETURN_IF_ERROR(lower_plan(c, *region));
  }
  return {};
}
Status run_lower(Compilation& c) { return lower_plan(c, c.plan); }

Status run_generate(Compilation& c) {
  const std::unique_ptr<CacheFolder> cache = open_cache(c.options);
  WEFT_ASSIGN_OR_RETURN(std::vector<KernelImage> images, generate_kernels(c, cache.get()));
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
  c.program.model = c.model;
  c.program.target = c.target.name;
  c.program.required_features = c.target.features;
  return {};
}

Status verify_levels(const Compilation& c, const std::string& level) {
  if (level == "graph") return verify_graph(c.graph);
  if (level == "tensor-program") return verify_tensor_program(c.tensors);
  if (level == "plan") return verify_plan(c.tensors, c.plan);
  return {};
}

void dump(const Compilation& c, int number, const Pass& pass) {
  if (c.options.dump_dir.empty()) return;
  const auto text = print_level(c, pass.level);
  std::ostringstream name;
  name << c.options.dump_dir << '/' << (number < 10 ? "0" : "") << number << '-' << pass.name << '.'
       << pass.level;
  std::ofstream(name.str()) << (text.ok() ? *text : text.error().message);
}

Result<std::unique_ptr<Compilation>> run_pipeline(std::unique_ptr<Compilation> c) {
  c->target = host_cpu_target(c->options.threads, c->options.max_vector_bytes);
  int number = 0;
  for (const Pass& pass : pipeline()) {
    const auto start = std::chrono::steady_clock::now();
    WEFT_RETURN_IF_ERROR(pass.run(*c));
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    c->timings.push_back({pass.name, spent.count()});
    if (c->options.verify) {
      Status status = verify_levels(*c, pass.level);
      if (!status.ok())
        return Error{ErrorCode::kInternal,
                     std::string("after pass ") + pass.name + ": " + status.error().message};
    }
    dump(*c, ++number, pass);
    if (c->options.stop_after == pass.name) break;
  }
  return c;
}

}  // namespace

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"inline-constant-if", "graph", run_inline_if},
      {"unroll-scans", "graph", run_unroll},
      {"fold-constants", "graph", run_fold_constants},
      {"simplify", "graph", run_simplify},
      {"merge-equal-nodes", "graph", run_merge_equal},
      {"remove-dead-nodes", "graph", run_remove_dead},
      {"express", "tensor-program", run_express},
      {"sink-constants", "tensor-program", run_sink_constants},
      {"fold-movement", "tensor-program", run_fold_movement},
      {"split-axes", "tensor-program", run_split_axes},
      {"sink-movement", "tensor-program", run_sink_movement},
      {"pack-contractions", "tensor-program", run_pack},
      {"remove-dead-expressions", "tensor-program", run_remove_dead_expressions},
      {"assign-layouts", "tensor-program", run_assign_layouts},
      {"plan", "plan", run_plan},
      {"lower", "kernel", run_lower},
      {"generate", "code", run_generate},
  };
  return passes;
}

CodeOfPlan code_of_plan(const Compilation& c) {
  CodeOfPlan code;
  for (const auto& [plan, numbers] : c.kernel_of) {
    std::vector<KernelCode>& list = code[plan];
    for (const size_t k : numbers) list.push_back({&c.kernels[k], c.image_of[k]});
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

namespace {

Result<Graph> read_printed_graph(const std::string& path) {
  std::ifstream file(path);
  if (!file) return invalid_input("cannot read '" + path + "'");
  std::ostringstream text;
  text << file.rdbuf();
  auto graph = parse_graph(text.str());
  if (!graph.ok()) return invalid_input("'" + path + "': " + graph.error().message);
  return graph;
}

}  // namespace

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
    if (path.ends_with(".graph")) {
      WEFT_ASSIGN_OR_RETURN(c->graph, read_printed_graph(path));
    } else {
      WEFT_ASSIGN_OR_RETURN(c->imported, import_onnx(path, options.import));
      c->graph = c->imported.graph;
    }
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    c->timings.push_back({"import", spent.count()});
    return run_pipeline(std::move(c));
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  } catch (const std::bad_alloc&) {
    return invalid_input(path + ": the model needs more memory than there is");
  }
}

}  // namespace weft
