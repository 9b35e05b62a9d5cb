#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "driver/report/time_runs.h"
#include "runtime/device_timing.h"
#include "runtime/thread_pool.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct BenchCommand {
  ModelOptions model;
  bool json = false;
  bool per_kernel = false;
  bool device_times = false;
  std::string trace;
  int runs = 0;
  double seconds = 1.0;
};

Status write_trace(const std::string& path, const std::vector<StepTime>& steps) {
  nlohmann::json events = nlohmann::json::array();
  double at = 0;
  for (const StepTime& step : steps) {
    events.push_back({{"name", step.name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", at * 1e3},
                      {"dur", step.ms * 1e3}});
    if (step.depth == 0) at += step.ms;
  }
  std::ofstream file(path);
  file << nlohmann::json({{"traceEvents", events}})
              .dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
       << "\n";
  return file.flush() ? Status() : Status(invalid_input("cannot write " + path));
}

nlohmann::ordered_json json_of(const StepTime& step) {
  nlohmann::ordered_json j = {{"name", step.name}, {"depth", step.depth}, {"ms", step.ms}};
  if (!step.entry.empty()) j["entry"] = step.entry;
  if (!step.kernel) return j;
  j["bytes"] = step.kernel->bytes;
  j["roofline_ms"] = step.kernel->roofline_ms;
  j["predicted_ms"] = step.kernel->predicted_ms;
  j["template"] = step.kernel->schedule_template;
  return j;
}

void print_table(const std::vector<StepTime>& steps) {
  fmt::print("{:>10} {:>12} {:>9}  {}\n", "ms", "bytes", "roofline", "kernel");
  for (const StepTime& step : steps) {
    const std::string name =
        std::string(static_cast<size_t>(step.depth) * 2, ' ') + printable(step.name);
    if (!step.kernel) {
      fmt::print("{:>10.4f} {:>12} {:>9}  {}\n", step.ms, "", "", name);
      continue;
    }
    fmt::print("{:>10.4f} {:>12.0f} {:>8.0f}%  {} [{}]\n", step.ms, step.kernel->bytes,
               step.ms > 0 ? 100 * step.kernel->roofline_ms / step.ms : 0, name,
               step.kernel->schedule_template);
  }
}

Status print_per_kernel(ReadyModel& model, const BenchCommand& o) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<StepTime> steps, time_steps(model));
  if (o.json) {
    nlohmann::ordered_json j = nlohmann::ordered_json::array();
    for (const StepTime& step : steps) j.push_back(json_of(step));
    fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_table(steps);
  }
  return o.trace.empty() ? Status() : write_trace(o.trace, steps);
}

/// Times without the copies of inputs and outputs, beside those of copying as much on the device.
Status add_device_times(const ReadyModel& model, nlohmann::ordered_json& j) {
  DeviceRun* run = model.session ? model.session->context().device_run() : nullptr;
  if (run == nullptr) return invalid_input("--device-times: the target is no GPU");
  WEFT_ASSIGN_OR_RETURN(const DeviceTimes times, time_on_device(*run));
  j["device"] = model.session->executable().device()->device()->properties().name;
  j["device_warm_us"] = times.warm_us;
  j["device_flushed_us"] = times.flushed_us;
  j["copy_warm_us"] = times.copy_warm_us;
  j["copy_flushed_us"] = times.copy_flushed_us;
  j["copied_bytes"] = times.copied_bytes;
  return {};
}

Status bench(const BenchCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ReadyModel model, ready_model(o.model));
  if (o.per_kernel || !o.trace.empty()) {
    if (model.parts)
      return unsupported("--per-kernel: sizes of the model depend on values, it runs in parts");
    if (!model.session) return invalid_input("--per-kernel: the interpreter runs no kernels");
    return print_per_kernel(model, o);
  }
  WEFT_ASSIGN_OR_RETURN(const RunTimes times, time_runs(model, o.runs, o.seconds));
  const PlanTotals& totals = model.totals;
  int64_t constants = 0;
  if (model.session) {
    for (const HostTensor& c : model.session->program().constants) constants += c.bytes();
  }
  nlohmann::ordered_json j;
  j["model"] = o.model.model;
  j["target"] = o.model.target;
  j["plan"] = o.model.planner;
  j["threads"] = o.model.threads > 0 ? o.model.threads : available_cores();
  j["runs"] = times.ms.size();
  j["median_ms"] = times.median();
  j["min_ms"] = times.ms.front();
  j["p95_ms"] = times.p95();
  j["compile_ms"] = model.compile_ms;
  j["compile_cached"] =
      model.unique_kernels > 0 && model.kernels_from_cache == model.unique_kernels;
  j["ops"] = totals.ops;
  j["kernels"] = totals.memory_kernels + totals.compute_kernels;
  j["library_calls"] = totals.library_calls;
  j["unique_kernels"] = model.unique_kernels;
  j["arena_bytes"] = model.session ? model.session->program().arena_bytes : 0;
  j["constant_bytes"] = constants;
  j["bytes_read"] = totals.bytes_read;
  j["bytes_written"] = totals.bytes_written;
  j["flops"] = totals.flops;
  if (times.device_us > 0) j["device_median_us"] = times.device_us;
  if (o.device_times) WEFT_RETURN_IF_ERROR(add_device_times(model, j));
  if (o.json) {
    fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  const std::string compiled =
      model.parts ? "compiled in parts while it runs"
                  : fmt::format("compiled in {:.1f} ms; {} ops in {} kernels", model.compile_ms,
                                totals.ops, totals.memory_kernels + totals.compute_kernels);
  fmt::print("{}: median {:.4f} ms, min {:.4f}, p95 {:.4f} over {} runs on {} threads; {}\n",
             printable(o.model.model), times.median(), times.ms.front(), times.p95(),
             times.ms.size(), j["threads"].get<int>(), compiled);
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand("bench", "Compile, warm up and time");
  add_model_options(*command, o->model);
  command->add_flag("--json", o->json, "One JSON object on stdout");
  command->add_flag(
      "--per-kernel", o->per_kernel,
      "Milliseconds, bytes and fraction of the roofline of each kernel; with --json one "
      "array");
  command->add_flag("--device-times", o->device_times,
                    "On a GPU, with --json: also its time with the second-level cache warm and "
                    "flushed, and that of copying as many bytes");
  command->add_option("--trace", o->trace, "Write a trace for chrome://tracing and Perfetto");
  command->add_option("--runs", o->runs, "Counted runs (default: as many as fit in --seconds)");
  command->add_option("--seconds", o->seconds, "Time to spend on counted runs (1)");
  command->callback([o, &status] { status = bench(*o); });
}

}  // namespace weft
