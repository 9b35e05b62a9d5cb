#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "driver/models/start_unfused.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/onnx_case.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/output_files.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct RunCommand {
  ModelOptions model;
  std::string output_dir;
  std::string expect;
  double rtol = 1e-3, atol = 1e-4;
  bool async = false;
  int runs = 1;
};

/// What the runs left: those of the last one.
struct RunOutputs {
  std::vector<std::string> names;
  std::vector<HostTensor> values;
};

void print_output(const std::string& name, const HostTensor& t) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = t.at_double(i);
    low = std::fmin(low, v);
    high = std::fmax(high, v);
    sum += v;
  }
  fmt::print("{} {}", printable(name), print(TensorType{t.dtype(), t.shape()}));
  if (t.size() > 0)
    fmt::print(" min {:.6g} mean {:.6g} max {:.6g}", low, sum / static_cast<double>(t.size()),
               high);
  fmt::print("\n");
}

Status write_outputs(const std::string& folder, const std::vector<std::string>& names,
                     const std::vector<HostTensor>& outputs) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return invalid_input("cannot make the folder " + folder + ": " + code.message());
  // All are written before the first appears: a full disk or an interrupt leaves none.
  std::vector<AtomicFile> files;
  for (const std::string& name : file_names(names)) {
    WEFT_ASSIGN_OR_RETURN(AtomicFile file,
                          AtomicFile::create(fmt::format("{}/{}.npy", folder, name)));
    WEFT_RETURN_IF_ERROR(write_npy(file, outputs[files.size()]));
    files.push_back(std::move(file));
  }
  for (AtomicFile& file : files) WEFT_RETURN_IF_ERROR(file.commit(/*durable=*/false));
  return {};
}

Result<RunOutputs> run_ready(const RunCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ReadyModel model, ready_model(o.model));
  RunOutputs out{model.output_names, {}};
  for (int i = 0; i < o.runs; ++i) {
    WEFT_ASSIGN_OR_RETURN(out.values, run_model(model));
  }
  return out;
}

/// What became of the plan that was compiled beside the runs.
void print_switch(const StartedRun& run, const std::string& plan, int unfused, int runs) {
  std::string what;
  if (run.model.programs.later == nullptr) {
    what = "it was ready first";
  } else if (const auto failure = run.model.programs.later->failure()) {
    what = fmt::format("all runs are unfused: {}", failure->message);
  } else if (const auto& trouble = run.context->trouble()) {
    what = fmt::format("all runs are unfused: {}", trouble->message);
  } else if (!run.context->switched()) {
    what = "all runs are unfused: it was not ready before they ended";
  } else {
    what = fmt::format("{} of {} runs unfused, then it was ready", unfused, runs);
  }
  fmt::print(stderr, "weft: plan {}: {}\n", printable(plan), printable(what));
}

Result<RunOutputs> run_started(const RunCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(o.model));
  auto started = [&] {
    const ProgressBar bar(&request.options);
    return prepare_unfused(request);
  }();
  // One in parts is compiled while it runs in any case.
  if (!started.ok() && started.error().code == ErrorCode::kUnsupported) return run_ready(o);
  WEFT_ASSIGN_OR_RETURN(StartedRun run, std::move(started));
  RunOutputs out;
  for (const ProgramIo& io : run.outputs) out.names.push_back(io.name);
  int unfused = 0;
  for (int i = 0; i < o.runs; ++i) {
    WEFT_ASSIGN_OR_RETURN(out.values, run_model(run));
    unfused += run.context->switched() ? 0 : 1;
  }
  print_switch(run, o.model.planner, unfused, o.runs);
  return out;
}

Status run(const RunCommand& o) {
  WEFT_ASSIGN_OR_RETURN(const RunOutputs done, o.async ? run_started(o) : run_ready(o));
  const std::vector<HostTensor>& outputs = done.values;
  for (size_t i = 0; i < outputs.size(); ++i) print_output(done.names[i], outputs[i]);
  if (!o.output_dir.empty()) WEFT_RETURN_IF_ERROR(write_outputs(o.output_dir, done.names, outputs));
  if (o.expect.empty()) return {};
  WEFT_ASSIGN_OR_RETURN(const auto expected, load_npz(o.expect));
  Status verdict;
  size_t compared = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto it = expected.find(done.names[i]);
    if (it == expected.end()) continue;
    ++compared;
    Status same = compare_tensors(outputs[i], it->second, {o.rtol, o.atol});
    fmt::print("{}: {}\n", printable(done.names[i]),
               same.ok() ? "as expected" : same.error().message);
    if (!same.ok()) {
      verdict = Error{ErrorCode::kComparison,
                      "output " + done.names[i] + " differs: " + same.error().message};
    }
  }
  if (compared == 0) return invalid_input(o.expect + " holds none of the model's outputs");
  return verdict;
}

}  // namespace

void add_run_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<RunCommand>();
  CLI::App* command =
      app.add_subcommand("run", "Compile (or take from the cache) and run; print each output");
  add_model_options(*command, o->model);
  command->add_option("--output-dir", o->output_dir, "Write one .npy per output into a folder");
  command->add_option("--expect", o->expect, "FILE.npz to compare the outputs with, by name");
  command->add_option("--rtol", o->rtol, "Relative tolerance (1e-3)");
  command->add_option("--atol", o->atol, "Absolute tolerance (1e-4)");
  command->add_option("--runs", o->runs, "Run so often on the same inputs; the last one is printed")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--async", o->async,
                    "Start with whichever is compiled first, the unfused model or the one by "
                    "--plan; runs change to the latter when it is ready");
  command->callback([o, &status] { status = run(*o); });
}

}  // namespace weft
