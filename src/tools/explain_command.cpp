#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/explain_text.h"
#include "tools/model_options.h"
#include "tools/plan_report.h"

namespace weft {

namespace {

struct ExplainCommand {
  ModelOptions model;
  bool json = false;
  std::string why;
};

nlohmann::ordered_json kernel_json(const Compilation& c, const PlannedKernel& kernel) {
  nlohmann::ordered_json j;
  j["name"] = kernel.name;
  j["kind"] = kernel.is_compute ? "compute" : "memory";
  j["ops"] = origin_names(c.tensors, kernel.group);
  j["template"] = kernel.schedule.schedule_template;
  j["scopes"] = scope_summary(kernel);
  j["shared_bytes"] = kernel.schedule.scopes.block_bytes;
  j["registers"] = nullptr;
  j["predicted_us"] = kernel.schedule.estimate.microseconds;
  j["bytes_read"] = kernel.schedule.estimate.bytes_read;
  j["bytes_written"] = kernel.schedule.estimate.bytes_written;
  return j;
}

void print_json(const Compilation& c, const ExplainCommand& o) {
  const PlanTotals totals = plan_totals(c);
  nlohmann::ordered_json j;
  j["target"] = o.model.target;
  j["plan"] = o.model.planner;
  j["ops"] = totals.ops;
  j["memory_kernels"] = totals.memory_kernels;
  j["compute_kernels"] = totals.compute_kernels;
  j["library_calls"] = 0;
  j["bytes_read"] = totals.bytes_read;
  j["bytes_written"] = totals.bytes_written;
  j["predicted_us"] = totals.predicted_us;
  j["kernels"] = nlohmann::ordered_json::array();
  for (const auto& [name, kernel] : kernels_by_name(c))
    j["kernels"].push_back(kernel_json(c, *kernel));
  j["edges"] = nlohmann::ordered_json::array();
  for (const EdgeDecision& e : c.plan.edges) {
    j["edges"].push_back({{"from", step_names(c.tensors, e.producer).back()},
                          {"to", step_names(c.tensors, e.consumer).back()},
                          {"verdict", verdict_name(e.verdict)},
                          {"reason", e.reason}});
  }
  fmt::print("{}\n", j.dump(1));
}

Status why(const Compilation& c, const std::string& pair) {
  const size_t comma = pair.find(',');
  if (comma == std::string::npos)
    return invalid_input("--why " + pair + ": write two node names, A,B");
  const std::string from = pair.substr(0, comma), to = pair.substr(comma + 1);
  const auto has = [&](int32_t step, const std::string& name) {
    const auto names = step_names(c.tensors, step);
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  bool found = false;
  for (const EdgeDecision& e : c.plan.edges) {
    if (!has(e.producer, from) || !has(e.consumer, to)) continue;
    found = true;
    fmt::print("{} -> {}: {}{}{}\n", from, to, verdict_name(e.verdict),
               e.reason.empty() ? "" : ": ", e.reason);
  }
  if (found) return {};
  for (size_t s = 0; s < c.tensors.steps.size(); ++s) {
    if (has(static_cast<int32_t>(s), from) && has(static_cast<int32_t>(s), to)) {
      fmt::print("{} -> {}: fused: both are one expression\n", from, to);
      return {};
    }
  }
  return invalid_input("no edge from '" + from + "' to '" + to +
                       "'; `weft explain --json` lists the edges");
}

Status explain(const ExplainCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target(o.model.target));
  WEFT_ASSIGN_OR_RETURN(const auto given, load_given_inputs(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, compile_options(o.model, given));
  options.stop_after = "plan";
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_model(o.model.model, options));
  if (!o.why.empty()) return why(*c, o.why);
  if (o.json) {
    print_json(*c, o);
    return {};
  }
  fmt::print("{}", explain_text(*c));
  if (o.model.timings) print_timings(c->timings, c->kernels_from_cache, c->unique_kernels);
  return {};
}

}  // namespace

void add_explain_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<ExplainCommand>();
  CLI::App* command = app.add_subcommand(
      "explain", "The plan: kernels, what is in each, why the edges between them were cut");
  add_model_options(*command, o->model);
  command->add_flag("--json", o->json, "One JSON object on stdout");
  command->add_option("--why", o->why, "A,B: the verdict on the edge between two nodes");
  command->callback([o, &status] { status = explain(*o); });
}

}  // namespace weft
