#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/plan_report.h"

namespace weft {

namespace {

struct ExplainCommand {
  ModelOptions model;
  bool json = false;
  std::string why;
};

/// Scopes of a kernel's local values, "register 5, scratch 1".
std::string scope_summary(const PlannedKernel& kernel) {
  std::map<std::string, int> count;
  const TileProgram& tile = kernel.schedule.program;
  for (size_t s = 0; s < tile.symbols.size(); ++s) {
    const TileSymbol& symbol = tile.symbols[s];
    if (symbol.kind != TileSymbol::Kind::kValue && symbol.kind != TileSymbol::Kind::kCarry)
      continue;
    ++count[std::string(scope_name(kernel.schedule.scopes.symbols[s].scope, tile.cpu))];
  }
  std::string out;
  for (const auto& [scope, n] : count)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", scope, n);
  return out;
}

/// Names of the model's nodes behind one step; expressions without an origin go by their tensor.
std::vector<std::string> step_names(const TensorProgram& p, int32_t step) {
  const TensorProgram::Step& s = p.steps[static_cast<size_t>(step)];
  const auto& origins = s.opaque ? p.opaques[static_cast<size_t>(s.index)].origins
                                 : p.exprs[static_cast<size_t>(s.index)].origins;
  std::vector<std::string> out;
  for (const int32_t o : origins) {
    if (o >= 0 && static_cast<size_t>(o) < p.origins.size())
      out.push_back(p.origins[static_cast<size_t>(o)].name);
  }
  if (out.empty() && !s.opaque)
    out.push_back(
        p.tensors[static_cast<size_t>(p.exprs[static_cast<size_t>(s.index)].output)].name);
  if (out.empty()) out.emplace_back(graph_op_name(p.opaques[static_cast<size_t>(s.index)].node.op));
  return out;
}

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

std::string join(const std::vector<std::string>& names, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) out += fmt::format(", … {} more", names.size() - most);
  return out;
}

void print_plan(const Compilation& c, const FusionPlan& plan, const TensorProgram& program,
                const std::string& indent) {
  int number = 0;
  for (const FusionPlan::Step& step : plan.order) {
    ++number;
    if (step.opaque) {
      const OpaqueExpr& o = program.opaques[static_cast<size_t>(step.index)];
      fmt::print("{}{:>4}  {} (a step of its own)\n", indent, number, graph_op_name(o.node.op));
      const auto& regions = plan.regions[static_cast<size_t>(step.index)];
      for (size_t r = 0; r < regions.size(); ++r)
        print_plan(c, *regions[r], *o.regions[r], indent + "      ");
      continue;
    }
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    const Estimate& e = kernel.schedule.estimate;
    fmt::print("{}{:>4}  {:<8} {:<16} {:>8.1f} us {:>10} B in {:>10} B out  {}\n", indent, number,
               kernel.is_compute ? "compute" : "memory", kernel.schedule.schedule_template,
               e.microseconds, e.bytes_read, e.bytes_written, kernel.name);
    fmt::print("{}      {}\n", indent, join(origin_names(program, kernel.group), 8));
    const std::string scopes = scope_summary(kernel);
    if (!scopes.empty()) fmt::print("{}      scopes: {}\n", indent, scopes);
  }
}

/// Why kernels are apart: the edges between them, equal reasons together.
void print_cuts(const Compilation& c) {
  std::map<std::string, std::vector<std::string>> cuts;
  for (const EdgeDecision& e : c.plan.edges) {
    if (e.verdict == EdgeDecision::Verdict::kFused) continue;
    cuts[std::string(verdict_name(e.verdict)) + ": " + e.reason].push_back(
        step_names(c.tensors, e.producer).back() + " -> " +
        step_names(c.tensors, e.consumer).back());
  }
  if (!cuts.empty()) fmt::print("\nedges that were not fused\n");
  for (const auto& [reason, edges] : cuts) fmt::print("  {}\n      {}\n", reason, join(edges, 4));
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
  const PlanTotals totals = plan_totals(*c);
  fmt::print(
      "{}: {} nodes in {} kernels ({} compute, {} memory), planner {}, {:.1f} MB read, {:.1f} MB "
      "written, {:.0f} us predicted\n\n",
      o.model.model, totals.ops, totals.compute_kernels + totals.memory_kernels,
      totals.compute_kernels, totals.memory_kernels, o.model.planner,
      static_cast<double>(totals.bytes_read) * 1e-6,
      static_cast<double>(totals.bytes_written) * 1e-6, totals.predicted_us);
  print_plan(*c, c->plan, c->tensors, "");
  print_cuts(*c);
  if (o.model.timings) print_timings(*c);
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
