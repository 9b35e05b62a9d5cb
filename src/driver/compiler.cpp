#include "driver/compiler.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "driver/graph_file.h"
#include "driver/other_binding.h"
#include "driver/passes.h"
#include "driver/plan_file.h"
#include "driver/reproducer.h"
#include "io/import_model.h"
#include "plan/planners/planner_parameters.h"
#include "support/cancelled.h"

namespace weft {

namespace {

/// What a compilation is before its model is read.
Result<std::unique_ptr<Compilation>> begin(const ModelSource& source,
                                           const CompileOptions& options) {
  auto c = std::make_unique<Compilation>();
  c->source = source;
  c->model = source.name();
  c->options = options;
  bool unmerged = false;
  std::optional<double> recompute;
  if (!options.plan_text.empty()) {
    auto header = parse_plan_header(options.plan_text);
    if (!header.ok()) return of_plan_file(c->options, header.take_error());
    c->options.planner = header->planner;
    unmerged = header->unmerged;
    recompute = header->recompute;
    c->filtered = std::move(header->filtered);
  }
  WEFT_ASSIGN_OR_RETURN(c->planner, find_planner(c->options.planner));
  if (c->planner->composes_arithmetic) {
    WEFT_ASSIGN_OR_RETURN(
        const PlannerParameters parameters,
        parse_planner_parameters(c->options.planner_parameters, c->options.planner));
    c->recompute = recompute.value_or(parameters.recompute);
    c->filter = options.compute_as_calls ? 0 : parameters.filter;
  }
  c->merges_products = c->planner->merges_products && !unmerged && !options.compute_as_calls;
  c->target =
      options.device ? *options.device : host_cpu_target(options.threads, options.max_vector_bytes);
  c->target.reduced_float32 = options.fast_math;
  if (c->target.is_gpu() && options.precision != Precision::kModel)
    return unsupported("a precision of bf16 on a GPU; its kernels keep to the model's types");
  return c;
}

/// Whether the options ask for kernels of a CPU that serve other bindings too.
bool keeps_sizes_open(const CompileOptions& options) {
  if (options.fixed_sizes || (options.device && options.device->is_gpu())) return false;
  if (options.stop_after.empty()) return true;
  return std::ranges::any_of(passes(), [&](const Pass& pass) {
    const std::string_view level(pass.level);
    return (level == "plan" || level == "kernel" || level == "code") &&
           options.stop_after == pass.name;
  });
}

/// Compiles at another binding beside this compilation; see Compilation::other.
template <typename Compile>
OtherCompilation compile_other(Compile&& compile, CompileOptions options) {
  options.stop_after = kLastExpressing;
  const auto job = [compile, options]() -> std::shared_ptr<Compilation> {
    auto made = compile(options);
    return made.ok() ? std::move(*made) : nullptr;
  };
  try {
    return std::async(std::launch::async, job).share();
  } catch (const std::system_error&) {  // no thread to be had
    return std::async(std::launch::deferred, job).share();
  }
}

OtherCompilation compile_beside(const ModelSource& model, CompileOptions options) {
  return compile_other([model](const CompileOptions& o) { return compile_model(model, o); },
                       std::move(options));
}

Result<ImportedModel> import_source(const ModelSource& source, const ImportOptions& options) {
  if (source.recorded) return source.recorded->build(options);
  if (source.is_file()) return import_model(source.path, options);
  return import_model(source.memory, options);
}

Status import_graph(Compilation& c) {
  ImportOptions import = c.options.import;
  if (keeps_sizes_open(c.options)) {
    import.inputs_bound = [&](const std::vector<ImportedInput>& inputs) {
      if (auto other = other_binding(c.options, inputs, OtherExtents::kLarger))
        c.other = compile_beside(c.source, std::move(*other));
    };
  }
  WEFT_ASSIGN_OR_RETURN(c.imported, import_source(c.source, import));
  c.graph = std::move(c.imported.graph);
  const bool specialised = std::ranges::any_of(
      c.imported.inputs, [](const ImportedInput& input) { return input.specialised.has_value(); });
  if (specialised) c.other = {};
  if (!c.other.valid()) return {};
  if (auto other = other_binding(c.options, c.imported.inputs, OtherExtents::kSmaller)) {
    c.begin_smaller = [source = c.source, options = std::move(*other)] {
      return compile_beside(source, options);
    };
  }
  return {};
}

/// The model's graph; kUnsupported and kInvalidInput for files that hold none.
Status read_model(Compilation& c) {
  const auto start = std::chrono::steady_clock::now();
  if (c.model.ends_with(".weft")) {
    return invalid_input("'" + c.model +
                         "' is a compiled artefact: run, bench and explain take it; everything "
                         "else needs the model");
  }
  if (c.model.ends_with(".graph")) {
    WEFT_ASSIGN_OR_RETURN(c.graph, read_graph_file(c.model));
  } else {
    WEFT_RETURN_IF_ERROR(import_graph(c));
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  c.timings.push_back({kImportPass, spent.count()});
  return {};
}

Status run_guarded(Compilation& c) {
  try {
    WEFT_RETURN_IF_ERROR(dump_level(c, 0, kImportPass, "graph"));
    const std::string last =
        c.options.stop_after.empty() ? passes().back().name : c.options.stop_after;
    return run_passes(c, passes_between(passes().front().name, last));
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  }
}

Result<std::unique_ptr<Compilation>> run_pipeline(std::unique_ptr<Compilation> c) {
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

Result<std::unique_ptr<Compilation>> compile_graph(Graph graph, const CompileOptions& options,
                                                   std::optional<Graph> other) {
  try {
    WEFT_ASSIGN_OR_RETURN(auto c, begin("", options));
    if (other && keeps_sizes_open(options)) {
      CompileOptions closed = options;
      closed.fixed_sizes = true;
      c->other = compile_other([at_other = std::move(*other)](
                                   const CompileOptions& o) { return compile_graph(at_other, o); },
                               std::move(closed));
    }
    c->graph = std::move(graph);
    return run_pipeline(std::move(c));
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  } catch (const Cancelled& e) {
    return Error{ErrorCode::kInterrupted, e.what()};
  } catch (const std::bad_alloc&) {
    return invalid_input("the model needs more memory than there is");
  }
}

Result<std::unique_ptr<Compilation>> compile_model(const ModelSource& source,
                                                   const CompileOptions& options) {
  try {
    WEFT_ASSIGN_OR_RETURN(auto c, begin(source, options));
    WEFT_RETURN_IF_ERROR(read_model(*c));
    return run_pipeline(std::move(c));
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  } catch (const Cancelled& e) {
    return Error{ErrorCode::kInterrupted, e.what()};
  } catch (const std::bad_alloc&) {
    return invalid_input(source.name() + ": the model needs more memory than there is");
  }
}

}  // namespace weft
