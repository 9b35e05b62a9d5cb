#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/explain_json.h"
#include "driver/explain_text.h"
#include "runtime/artefact.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct ExplainCommand {
  ModelOptions model;
  bool json = false;
  std::string why;
};

/// The two names of --why A,B.
Result<std::pair<std::string, std::string>> edge_asked_for(const std::string& pair) {
  const size_t comma = pair.find(',');
  if (comma == std::string::npos)
    return invalid_input("--why " + pair + ": write two node names, A,B");
  return std::pair(pair.substr(0, comma), pair.substr(comma + 1));
}

Error no_edge(const std::string& from, const std::string& to) {
  return invalid_input("no edge from '" + from + "' to '" + to +
                       "'; `weft explain --json` lists the edges");
}

void print_verdict(const std::string& from, const std::string& to, std::string_view verdict,
                   const std::string& reason) {
  fmt::print("{} -> {}: {}{}{}\n", printable(from), printable(to), verdict,
             reason.empty() ? "" : ": ", printable(reason));
}

Status why(const Compilation& c, const std::string& pair) {
  WEFT_ASSIGN_OR_RETURN(const auto names, edge_asked_for(pair));
  const auto& [from, to] = names;
  const auto has = [&](int32_t step, const std::string& name) {
    const auto known = step_names(c.tensors, step);
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  bool found = false;
  for (const EdgeDecision& e : c.plan.edges) {
    if (!has(e.producer, from) || !has(e.consumer, to)) continue;
    found = true;
    print_verdict(from, to, verdict_name(e.verdict), e.reason);
  }
  if (found) return {};
  for (size_t s = 0; s < c.tensors.steps.size(); ++s) {
    if (has(static_cast<int32_t>(s), from) && has(static_cast<int32_t>(s), to)) {
      fmt::print("{} -> {}: fused: both are one expression\n", printable(from), printable(to));
      return {};
    }
  }
  return no_edge(from, to);
}

/// The same from an artefact's explanation, which names each end of an edge by its last node.
Status why(const nlohmann::ordered_json& explanation, const std::string& pair) {
  WEFT_ASSIGN_OR_RETURN(const auto names, edge_asked_for(pair));
  const auto& [from, to] = names;
  bool found = false;
  for (const auto& e : explanation.value("edges", nlohmann::ordered_json::array())) {
    if (e.value("from", "") != from || e.value("to", "") != to) continue;
    found = true;
    print_verdict(from, to, e.value("verdict", ""), e.value("reason", ""));
  }
  return found ? Status() : Status(no_edge(from, to));
}

Status explain_artefact(const ExplainCommand& o) {
  ArtefactOptions options;
  options.any_features = true;
  options.verify_constants = false;
  WEFT_ASSIGN_OR_RETURN(const std::vector<Program> programs,
                        load_artefact(o.model.model, {}, options));
  std::vector<nlohmann::ordered_json> explanations;
  for (const Program& program : programs) {
    if (program.explanation.empty())
      return invalid_input("'" + o.model.model + "' was written without an explanation");
    if (!o.json && o.why.empty()) {
      fmt::print("{}{}", explanations.empty() ? "" : "\n", printable(program.explanation));
    }
    explanations.push_back(nlohmann::ordered_json::parse(program.explanation_json, nullptr, false));
    if (!explanations.back().is_object())
      return invalid_input("'" + o.model.model + "': its explanation does not parse");
  }
  if (!o.why.empty()) return why(explanations.front(), o.why);
  if (!o.json) return {};
  // One object whatever the file holds: programs for other targets or shapes stand inside it.
  nlohmann::ordered_json first = std::move(explanations.front());
  for (size_t i = 1; i < explanations.size(); ++i) {
    first["other_programs"].push_back(std::move(explanations[i]));
  }
  fmt::print("{}\n", first.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  return {};
}

Status explain(const ExplainCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target(o.model.target));
  if (is_artefact(o.model.model)) return explain_artefact(o);
  WEFT_ASSIGN_OR_RETURN(const auto given, load_given_inputs(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, compile_options(o.model, given));
  // What --fast-math substitutes is known when there are kernels.
  options.stop_after = options.fast_math ? "shorten-exponentials" : "plan";
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_model(o.model.model, options));
  if (!o.why.empty()) return why(*c, o.why);
  if (o.json) {
    fmt::print("{}\n", explain_json(*c));
    return {};
  }
  fmt::print("{}", printable(explain_text(*c)));
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
