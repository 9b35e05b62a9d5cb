#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "driver/compiler.h"
#include "driver/device_target.h"
#include "driver/explain/candidates_text.h"
#include "driver/explain/edge_verdicts.h"
#include "driver/explain/explain_json.h"
#include "driver/explain/explain_text.h"
#include "driver/passes.h"
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
  std::string candidates;
};

/// The two names of --why A,B.
Result<std::pair<std::string, std::string>> edge_asked_for(const std::string& pair) {
  const size_t comma = pair.find(',');
  if (comma == std::string::npos)
    return invalid_input("--why " + pair + ": write two node names, A,B");
  return std::pair(pair.substr(0, comma), pair.substr(comma + 1));
}

/// Of the edge between the two names of --why; `explanation` is a compilation's or JSON.
template <typename Explanation>
Status why(const Explanation& explanation, const std::string& pair) {
  WEFT_ASSIGN_OR_RETURN(const auto names, edge_asked_for(pair));
  const auto& [from, to] = names;
  WEFT_ASSIGN_OR_RETURN(const std::vector<EdgeVerdict> verdicts,
                        edge_verdicts(explanation, from, to));
  for (const EdgeVerdict& v : verdicts) {
    fmt::print("{} -> {}: {}{}{}\n", printable(from), printable(to), v.verdict,
               v.reason.empty() ? "" : ": ", printable(v.reason));
  }
  return {};
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
  if (!o.why.empty()) return why(programs.front().explanation_json, o.why);
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
  WEFT_RETURN_IF_ERROR(check_target_names(o.model.target));
  if (is_artefact(o.model.model)) {
    if (!o.candidates.empty())
      return invalid_input("--candidates needs the model: an artefact holds what was chosen");
    return explain_artefact(o);
  }
  WEFT_ASSIGN_OR_RETURN(const ModelRequest request, model_request(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, options_for_target(request));
  // What --fast-math substitutes is known when there are kernels.
  options.stop_after = last_pass_of({options.fast_math ? "kernel" : "plan"});
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_model(o.model.model, options));
  if (!o.why.empty()) return why(explained(*c), o.why);
  if (!o.candidates.empty()) {
    WEFT_ASSIGN_OR_RETURN(const std::string text, candidates_text(explained(*c), o.candidates));
    fmt::print("{}", printable(text));
    return {};
  }
  if (o.json) {
    fmt::print("{}\n", explain_json(explained(*c)));
    return {};
  }
  fmt::print("{}", printable(explain_text(explained(*c))));
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
  command->add_option("--candidates", o->candidates,
                      "KERNEL: what was considered for a kernel (its name or number), with "
                      "predictions, and why each lost");
  command->callback([o, &status] { status = explain(*o); });
}

}  // namespace weft
