#include "driver/report/time_runs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

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

/// The kernels of a program's explanation, by name.
std::map<std::string, StepTime::Kernel> explained_kernels(const Program& program) {
  const auto explanation = nlohmann::json::parse(program.explanation_json, nullptr, false);
  std::map<std::string, StepTime::Kernel> kernels;
  if (!explanation.is_object()) return kernels;
  for (const auto& k : explanation.value("kernels", nlohmann::json::array())) {
    const auto times = static_cast<double>(k.value("times", int64_t{1}));
    kernels[k.value("name", "")] = {
        times * (k.value("bytes_read", 0.0) + k.value("bytes_written", 0.0)),
        times * k.value("roofline_us", 0.0) * 1e-3, times * k.value("predicted_us", 0.0) * 1e-3,
        k.value("template", "")};
  }
  return kernels;
}

}  // namespace

double RunTimes::p95() const { return ms[std::min(ms.size() - 1, ms.size() * 95 / 100)]; }

Result<RunTimes> time_runs(ReadyModel& model, int runs, double seconds) {
  constexpr size_t kMostRuns = 100000;
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, run_model(model));
  const auto once = [&]() -> Status {
    if (model.session) return model.session->run_into(model.inputs, &outputs);
    auto result = run_model(model);
    return result.ok() ? Status() : Status(result.take_error());
  };
  const auto warm = Clock::now();
  int warmed = 0;
  while (warmed < 3 || milliseconds_since(warm) < 50) {
    WEFT_RETURN_IF_ERROR(once());
    if (++warmed >= 3 && milliseconds_since(warm) > 300) break;
  }
  RunTimes t;
  const auto begin = Clock::now();
  const auto goes_on = [&] {
    if (runs > 0) return static_cast<int>(t.ms.size()) < runs;
    return t.ms.size() < 5 ||
           (milliseconds_since(begin) < 1e3 * seconds && t.ms.size() < kMostRuns);
  };
  while (goes_on()) {
    const auto start = Clock::now();
    WEFT_RETURN_IF_ERROR(once());
    t.ms.push_back(milliseconds_since(start));
  }
  std::sort(t.ms.begin(), t.ms.end());
  if (model.session && model.session->executable().device() != nullptr) {
    WEFT_ASSIGN_OR_RETURN(t.device_us, device_time(model, outputs));
  }
  return t;
}

Result<std::vector<StepTime>> time_steps(ReadyModel& model) {
  constexpr int kRuns = 20;
  const auto& steps = model.session->executable().steps();
  std::vector<int64_t> ns(steps.size(), 0);
  RunOptions options;
  options.step_nanoseconds = ns;
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, model.session->run(model.inputs));
  std::vector<std::vector<int64_t>> samples(steps.size());
  for (int r = 0; r < kRuns; ++r) {
    std::fill(ns.begin(), ns.end(), 0);
    WEFT_RETURN_IF_ERROR(model.session->run_into(model.inputs, &outputs, options));
    for (size_t s = 0; s < ns.size(); ++s) samples[s].push_back(ns[s]);
  }
  const Program& program = model.session->program();
  const auto kernels = explained_kernels(program);
  std::vector<StepTime> times;
  for (size_t s = 0; s < steps.size(); ++s) {
    std::nth_element(samples[s].begin(), samples[s].begin() + kRuns / 2, samples[s].end());
    StepTime& time = times.emplace_back();
    time.name = steps[s].name;
    time.depth = static_cast<int>(steps[s].depth);
    time.ms = static_cast<double>(samples[s][kRuns / 2]) * 1e-6;
    if (steps[s].kernel >= 0)
      time.entry = program.kernels[static_cast<size_t>(steps[s].kernel)].device.entry;
    if (const auto it = kernels.find(time.name); it != kernels.end()) time.kernel = it->second;
  }
  return times;
}

}  // namespace weft
