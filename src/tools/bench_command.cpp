#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/device_timing.h"
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

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Times {
  std::vector<double> ms;
  double device_us = 0;  ///< median that a GPU takes between the copies of inputs and outputs
  double median() const { return ms[ms.size() / 2]; }
  double p95() const { return ms[std::min(ms.size() - 1, ms.size() * 95 / 100)]; }
};

Result<double> device_time(ReadyModel& model, std::vector<HostTensor>& outputs) {
  constexpr int kRuns = 25;
  std::vector<int64_t> ns(kRuns);
  for (int64_t& sample : ns) {
    RunOptions options;
    options.device_nanoseconds = &sample;
    WEFT_RETURN_IF_ERROR(model.session->run_into(model.inputs, &outputs, options));
  }
  std::nth_element(ns.begin(), ns.begin() + kRuns / 2, ns.end());
  return static_cast<double>(ns[kRuns / 2]) * 1e-3;
}

Result<Times> time_runs(ReadyModel& model, const BenchCommand& o) {
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, run_model(model));
  const auto once = [&]() -> Status {
    if (model.session) return model.session->run_into(model.inputs, &outputs);
    auto result = run_model(model);
    return result.ok() ? Status() : Status(result.take_error());
  };
  const auto warm = std::chrono::steady_clock::now();
  int warmed = 0;
  while (warmed < 3 || milliseconds_since(warm) < 50) {
    WEFT_RETURN_IF_ERROR(once());
    if (++warmed >= 3 && milliseconds_since(warm) > 300) break;
  }
  Times t;
  const auto begin = std::chrono::steady_clock::now();
  while (o.runs > 0 ? static_cast<int>(t.ms.size()) < o.runs
                    : t.ms.size() < 5 ||
                          (milliseconds_since(begin) < 1e3 * o.seconds && t.ms.size() < 100000)) {
    const auto start = std::chrono::steady_clock::now();
    WEFT_RETURN_IF_ERROR(once());
    t.ms.push_back(milliseconds_since(start));
  }
  std::sort(t.ms.begin(), t.ms.end());
  if (model.session && model.session->executable().device() != nullptr) {
    WEFT_ASSIGN_OR_RETURN(t.device_us, device_time(model, outputs));
  }
  return t;
}

Status print_per_kernel(ReadyModel& model, const BenchCommand& o) {
  const auto& steps = model.session->executable().steps();
  std::vector<int64_t> ns(steps.size(), 0);
  RunOptions options;
  options.step_nanoseconds = ns;
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, model.session->run(model.inputs));
  constexpr int kRuns = 20;
  std::vector<std::vector<int64_t>> samples(steps.size());
  for (int r = 0; r < kRuns; ++r) {
    std::fill(ns.begin(), ns.end(), 0);
    WEFT_RETURN_IF_ERROR(model.session->run_into(model.inputs, &outputs, options));
    for (size_t s = 0; s < ns.size(); ++s) samples[s].push_back(ns[s]);
  }
  const auto explanation =
      nlohmann::json::parse(model.session->program().explanation_json, nullptr, false);
  std::map<std::string, nlohmann::json> kernels;
  if (explanation.is_object()) {
    for (const auto& kernel : explanation.value("kernels", nlohmann::json::array()))
      kernels[kernel.value("name", "")] = kernel;
  }
  fmt::print("{:>10} {:>12} {:>9}  {}\n", "ms", "bytes", "roofline", "kernel");
  nlohmann::json events = nlohmann::json::array();
  double at = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    std::nth_element(samples[s].begin(), samples[s].begin() + kRuns / 2, samples[s].end());
    const double ms = static_cast<double>(samples[s][kRuns / 2]) * 1e-6;
    const auto it = kernels.find(steps[s].name);
    const std::string indent(static_cast<size_t>(steps[s].depth) * 2, ' ');
    if (it == kernels.end()) {
      fmt::print("{:>10.4f} {:>12} {:>9}  {}{}\n", ms, "", "", indent, printable(steps[s].name));
    } else {
      const nlohmann::json& k = it->second;
      const auto times = static_cast<double>(k.value("times", int64_t{1}));
      const double bytes = times * (k.value("bytes_read", 0.0) + k.value("bytes_written", 0.0));
      const double limit = times * k.value("roofline_us", 0.0) * 1e-3;
      fmt::print("{:>10.4f} {:>12.0f} {:>8.0f}%  {}{} [{}]\n", ms, bytes,
                 ms > 0 ? 100 * limit / ms : 0, indent, printable(steps[s].name),
                 k.value("template", ""));
    }
    events.push_back({{"name", steps[s].name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", at * 1e3},
                      {"dur", ms * 1e3}});
    if (steps[s].depth == 0) at += ms;
  }
  if (!o.trace.empty()) {
    std::ofstream file(o.trace);
    file << nlohmann::json({{"traceEvents", events}})
                .dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
         << "\n";
    if (!file.flush()) return invalid_input("cannot write " + o.trace);
  }
  return {};
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
  WEFT_ASSIGN_OR_RETURN(ReadyModel model, prepare_model(o.model));
  if (o.per_kernel || !o.trace.empty()) {
    if (!model.session) return invalid_input("--per-kernel: the interpreter runs no kernels");
    return print_per_kernel(model, o);
  }
  WEFT_ASSIGN_OR_RETURN(const Times times, time_runs(model, o));
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
  fmt::print(
      "{}: median {:.4f} ms, min {:.4f}, p95 {:.4f} over {} runs on {} threads; compiled in {:.1f} "
      "ms; {} ops in {} kernels\n",
      printable(o.model.model), times.median(), times.ms.front(), times.p95(), times.ms.size(),
      j["threads"].get<int>(), model.compile_ms, totals.ops,
      totals.memory_kernels + totals.compute_kernels);
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand("bench", "Compile, warm up and time");
  add_model_options(*command, o->model);
  command->add_flag("--json", o->json, "One JSON object on stdout");
  command->add_flag("--per-kernel", o->per_kernel,
                    "Milliseconds, bytes and fraction of the roofline of each kernel");
  command->add_flag("--device-times", o->device_times,
                    "On a GPU, with --json: also its time with the second-level cache warm and "
                    "flushed, and that of copying as many bytes");
  command->add_option("--trace", o->trace, "Write a trace for chrome://tracing and Perfetto");
  command->add_option("--runs", o->runs, "Counted runs (default: as many as fit in --seconds)");
  command->add_option("--seconds", o->seconds, "Time to spend on counted runs (1)");
  command->callback([o, &status] { status = bench(*o); });
}

}  // namespace weft
