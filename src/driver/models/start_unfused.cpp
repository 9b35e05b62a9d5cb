#include "driver/models/start_unfused.h"

#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "driver/models/load_or_compile.h"
#include "runtime/load_programs.h"
#include "support/cancelled.h"

namespace weft {

namespace {

/// What either compilation finds out beside its program.
struct Findings {
  std::mutex mutex;
  bool known = false;
  std::vector<ImportedInput> inputs;
  std::map<std::string, std::string> metadata;
  std::vector<std::future<void>> stored;
};

/// Leaves the cores to others as long as they have work for them, as do threads that this one
/// starts. The system does not let a thread take that back, so it is for threads that end with
/// their work.
void take_idle_cores() {
  constexpr int kNice = 19;
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) == 0) return;  // on Linux: of the calling thread
  (void)setpriority(PRIO_PROCESS, 0, kNice);
}

/// Compiles until it is told to stop, also by the caller's flag, which progress looks at.
Result<ModelPrograms> compile_programs(const ModelSource& source, CompileOptions options,
                                       std::atomic<bool>& stop, Findings& findings) {
  options.progress = [&stop, caller = options.cancel,
                      tell = options.progress](const CompileProgress& p) {
    if (is_cancelled(caller)) stop.store(true, std::memory_order_relaxed);
    if (tell) tell(p);
  };
  options.cancel = &stop;
  WEFT_ASSIGN_OR_RETURN(CompiledModel model, load_or_compile(source, options));
  std::vector<Program> programs;
  programs.push_back(std::move(model.program));
  WEFT_ASSIGN_OR_RETURN(ModelPrograms loaded, load_programs(std::move(programs)));
  const std::lock_guard lock(findings.mutex);
  if (model.stored.valid()) findings.stored.push_back(std::move(model.stored));
  if (!findings.known) {
    findings.known = true;
    findings.inputs = std::move(model.inputs);
    findings.metadata = std::move(model.metadata);
  }
  return loaded;
}

/// The same model by the planner that fuses nothing.
CompileOptions unfused(const CompileOptions& fused) {
  CompileOptions options = fused;
  options.planner = "none";
  options.compositions.clear();
  options.planner_parameters.clear();
  options.plan_text.clear();
  options.plan_source.clear();
  options.dump_dir.clear();
  options.progress = nullptr;
  return options;
}

}  // namespace

Result<StartedModel> start_unfused(const ModelSource& source, const CompileOptions& options) {
  const auto findings = std::make_shared<Findings>();
  const auto quick = [=, o = unfused(options)](std::atomic<bool>& stop) {
    take_idle_cores();
    return compile_programs(source, o, stop, *findings);
  };
  const auto better = [=](std::atomic<bool>& stop) {
    return compile_programs(source, options, stop, *findings);
  };
  StartedModel model;
  WEFT_ASSIGN_OR_RETURN(model.programs, start_programs(quick, better));
  const std::lock_guard lock(findings->mutex);
  model.inputs = findings->inputs;
  model.metadata = findings->metadata;
  model.stored = findings;
  return model;
}

Result<StartedRun> prepare_unfused(const ModelRequest& request) {
  if (is_artefact(request.model))
    return invalid_input("--async is for models: an artefact is compiled already");
  if (request.target == "interp" || request.target == "simt")
    return invalid_input("--async is for compiled code; --target " + request.target +
                         " runs none of this machine");
  WEFT_ASSIGN_OR_RETURN(const CompileOptions options, options_for_machine(request));
  StartedRun run;
  WEFT_ASSIGN_OR_RETURN(run.model, start_unfused(request.model, options));
  const Program& program = run.model.programs.first.front()->program();
  run.outputs = program.outputs;
  WEFT_ASSIGN_OR_RETURN(run.inputs,
                        program_inputs(run.model.inputs, program.inputs, request.inputs));
  ContextOptions context;
  const int threads = options.threads == 0 ? available_cores() : options.threads;
  if (threads > 1) {
    ThreadPool::Options pool;
    pool.threads = threads;
    WEFT_ASSIGN_OR_RETURN(context.pool, ThreadPool::create(pool));
  }
  WEFT_ASSIGN_OR_RETURN(run.context,
                        SwitchingContext::create(run.model.programs.first, run.model.programs.later,
                                                 std::move(context)));
  return run;
}

Result<std::vector<HostTensor>> run_model(StartedRun& run) {
  std::vector<HostTensor> outputs;
  std::vector<InputRef> in;
  std::vector<OutputRef> out;
  for (const ProgramIo& io : run.outputs) outputs.emplace_back(io.dtype, io.shape);
  for (const HostTensor& t : run.inputs) in.push_back({t.dtype(), t.shape(), t.raw()});
  for (HostTensor& t : outputs) out.push_back({t.dtype(), t.shape(), t.mutable_raw()});
  WEFT_RETURN_IF_ERROR(run.context->run(in, out));
  return outputs;
}

}  // namespace weft
