#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/compiler.h"
#include "driver/explain/candidates_text.h"
#include "driver/explain/edge_verdicts.h"
#include "driver/explain/explain_json.h"
#include "driver/explain/explain_text.h"
#include "driver/explain/verdict_together.h"
#include "driver/models/device_target.h"
#include "driver/page/page.h"
#include "driver/passes.h"
#include "driver/plan_file.h"
#include "driver/report/compare_with_plan.h"
#include "driver/report/page_of_model.h"
#include "runtime/artefact.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct ExplainCommand {
  ModelOptions model;
  bool json = false;
  std::string why;
  std::string candidates;
  std::string html;
  bool measure = false;
  bool compares = false;
  std::string compare_with;  ///< a plan's file; empty: each planner
  bool compute_as_calls = false;
  bool optimal = false;
};

/// The page into the file of --html.
Status explain_as_page(const ExplainCommand& o) {
  if (o.compares && o.compare_with.empty())
    return invalid_input("--compare with --html: name the plan to compare with, FILE.plan");
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(o.model));
  const auto page = [&] {
    const ProgressBar bar(&request.options);
    return page_of_model(request, {o.measure, o.compare_with});
  }();
  return page.ok() ? write_page(o.html, *page) : Status(page.error());
}

/// The two names of --why A,B.
Result<std::pair<std::string, std::string>> edge_asked_for(const std::string& pair) {
  const size_t comma = pair.find(',');
  if (comma == std::string::npos)
    return invalid_input("--why " + pair + ": write two node names, A,B");
  return std::pair(pair.substr(0, comma), pair.substr(comma + 1));
}

void print_verdict(const std::string& from, const std::string& to, const EdgeVerdict& v) {
  fmt::print("{} -> {}: {}{}{}\n", printable(from), printable(to), v.verdict,
             v.reason.empty() ? "" : ": ", printable(v.reason));
  for (const std::string& note : v.notes) fmt::print("  {}\n", printable(note));
}

/// Of the two nodes of --why: the edge between them, and what one kernel of both would be.
Status why(const Explained& c, const std::string& pair) {
  WEFT_ASSIGN_OR_RETURN(const auto names, edge_asked_for(pair));
  const auto& [from, to] = names;
  const std::vector<EdgeVerdict> edges = edge_verdicts(c, from, to);
  for (const EdgeVerdict& v : edges) print_verdict(from, to, v);
  if (std::ranges::any_of(edges, [](const EdgeVerdict& v) { return v.verdict == "fused"; }))
    return {};
  WEFT_ASSIGN_OR_RETURN(const EdgeVerdict together, verdict_together(c, from, to));
  print_verdict(from, to, together);
  return {};
}

/// The same of an artefact, which knows the edges.
Status why_of_artefact(const std::string& explanation_json, const std::string& pair) {
  WEFT_ASSIGN_OR_RETURN(const auto names, edge_asked_for(pair));
  const auto& [from, to] = names;
  WEFT_ASSIGN_OR_RETURN(const std::vector<EdgeVerdict> verdicts,
                        edge_verdicts(explanation_json, from, to));
  for (const EdgeVerdict& v : verdicts) print_verdict(from, to, v);
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
  if (!o.why.empty()) return why_of_artefact(programs.front().explanation_json, o.why);
  if (!o.json) return {};
  // One object whatever the file holds: programs for other targets or shapes stand inside it.
  nlohmann::ordered_json first = std::move(explanations.front());
  for (size_t i = 1; i < explanations.size(); ++i) {
    first["other_programs"].push_back(std::move(explanations[i]));
  }
  fmt::print("{}\n", first.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  return {};
}

Status compare(const ExplainCommand& o, const Compilation& c) {
  if (o.compare_with.empty()) {
    if (o.json) return invalid_input("--compare with --json: name the plan, FILE.plan");
    WEFT_ASSIGN_OR_RETURN(const std::string text, compare_planners(c));
    fmt::print("{}", text);
    return {};
  }
  WEFT_ASSIGN_OR_RETURN(const PlanComparison comparison, compare_with_plan(c, o.compare_with));
  fmt::print("{}",
             o.json ? comparison_json(comparison) + "\n" : printable(comparison_text(comparison)));
  return {};
}

/// Of a model whose sizes depend on values, which has no plan before it runs; `refused` where it is
/// none.
Status explain_parts(const ExplainCommand& o, const Error& refused) {
  const bool is_plain = o.why.empty() && !o.compares && o.candidates.empty() && !o.optimal &&
                        !o.json && !o.compute_as_calls;
  if (refused.code != ErrorCode::kUnsupported || !is_plain) return refused;
  auto ready = ready_model(o.model);
  if (!ready.ok() || !ready->parts) return refused;
  WEFT_RETURN_IF_ERROR(run_model(*ready));
  fmt::print("{}", printable(ready->parts->explanation()));
  return {};
}

Status explain(const ExplainCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target_names(o.model.target));
  if (!o.html.empty()) {
    if (o.compute_as_calls) return invalid_input("--compute-as-calls is not for the page");
    return explain_as_page(o);
  }
  if (o.measure) return invalid_input("--measure is for the page: --html FILE");
  if (o.compute_as_calls && (is_artefact(o.model.model) || is_plan_file(o.model.planner)))
    return invalid_input("--compute-as-calls is for planners: this plan is made");
  if (is_artefact(o.model.model)) {
    if (!o.candidates.empty())
      return invalid_input("--candidates needs the model: an artefact holds what was chosen");
    if (o.compares) return invalid_input("--compare needs the model: an artefact holds one plan");
    if (o.optimal) return invalid_input("--optimal needs the model: an artefact holds one plan");
    return explain_artefact(o);
  }
  WEFT_ASSIGN_OR_RETURN(const ModelRequest request, model_request(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, options_for_target(request));
  options.compute_as_calls = o.compute_as_calls;
  // What --fast-math substitutes is known when there are kernels.
  options.stop_after = last_pass_of({options.fast_math ? "kernel" : "plan"});
  auto compiled = [&] {
    const ProgressBar bar(&options);
    return compile_model(o.model.model, options);
  }();
  if (!compiled.ok()) return explain_parts(o, compiled.error());
  const std::unique_ptr<Compilation>& c = *compiled;
  if (!o.why.empty()) return why(explained(*c), o.why);
  if (o.compares) return compare(o, *c);
  if (!o.candidates.empty()) {
    WEFT_ASSIGN_OR_RETURN(const std::string text, candidates_text(explained(*c), o.candidates));
    fmt::print("{}", printable(text));
    return {};
  }
  if (o.optimal) {
    WEFT_ASSIGN_OR_RETURN(const std::string text, optimality_text(*c));
    fmt::print("{}", text);
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
  command->add_option("--why", o->why,
                      "A,B: the verdict on two nodes, with times apart and together, and what "
                      "would change it");
  command->add_option("--candidates", o->candidates,
                      "KERNEL: what was considered for a kernel (its name or number), with "
                      "predictions, and why each lost");
  command
      ->add_option_function<std::string>(
          "--compare",
          [o](const std::string& file) {
            o->compares = true;
            o->compare_with = file == "{}" ? "" : file;
          },
          "What each planner would make of the model; with FILE.plan, what changed since that "
          "plan (of `dump --stage plan`), kernel by kernel")
      ->type_name("[FILE.plan]")
      ->expected(0, 1);
  command->add_flag("--optimal", o->optimal,
                    "How good the plan is: its predicted time beside that of the integer program's "
                    "patterns, what these gain, and the bound that no others exceed");
  command->add_flag("--compute-as-calls", o->compute_as_calls,
                    "Count every product and convolution as a library call of its own, which "
                    "nothing joins: the kernels that memory bounds, as the papers count them");
  command->add_option("--html", o->html,
                      "FILE: the plan as one page for a browser, which needs nothing else");
  command->add_flag("--measure", o->measure,
                    "With --html: run the model, for measured times beside the predicted ones");
  command->callback([o, &status] { status = explain(*o); });
}

}  // namespace weft
