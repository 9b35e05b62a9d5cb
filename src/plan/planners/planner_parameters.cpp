#include "plan/planners/planner_parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "expr/movement/compose_arithmetic.h"
#include "fmt/format.h"

namespace weft {

namespace {

struct Parameter {
  std::string_view name;
  std::string_view planners;  ///< that take it, apart by blanks
  std::string_view help;
  bool is_whole = true;
  void (*set)(PlannerParameters& parameters, double value) = nullptr;
  double least = 0;
  double most = 1e15;  ///< exact as a double
};

template <auto kField>
constexpr Parameter parameter(std::string_view name, std::string_view planners,
                              std::string_view help, double least, double most = 1e15) {
  using Value = std::remove_reference_t<decltype(PlannerParameters{}.*kField)>;
  return {.name = name,
          .planners = planners,
          .help = help,
          .is_whole = std::is_integral_v<Value>,
          .set = [](PlannerParameters& p, double value) { p.*kField = static_cast<Value>(value); },
          .least = least,
          .most = most};
}

/// Those whose Planner::composes_arithmetic is set.
constexpr std::string_view kComposing =
    "greedy span dp ilp chain subprogram best auto souffle-v2 souffle-v3 souffle-v4";

using P = PlannerParameters;
constexpr Parameter kParameters[] = {
    parameter<&P::top>("top", "dp", "candidates an expression", 1, 64),
    parameter<&P::beam>("beam", "dp", "sets of patterns that are kept", 1, 64),
    parameter<&P::subgraphs>("subgraphs", "dp auto best subprogram",
                             "1: subgraphs by breadth-first search are candidates, too; 0: not", 0,
                             1),
    parameter<&P::launch_us>("launch-us", "dp ilp", "what a launch that is not made saves", 0, 1e6),
    parameter<&P::expressions>("expressions", "greedy dp ilp span", "of a kernel at most", 1, 1e6),
    parameter<&P::operands>("operands", "ilp", "of a seed of exploration at most", 0),
    parameter<&P::seed_bytes>("seed-bytes", "ilp", "of a seed's largest tensor at least", 0),
    parameter<&P::seed_patterns>("seed-patterns", "ilp", "found from a seed at most", 0, 1e6),
    parameter<&P::large_flops>("large-flops", "ilp", "from which a product partitions first", 0),
    parameter<&P::nodes>("nodes", "ilp", "of branch and bound at most", 1, 1e9),
    parameter<&P::cuts>("cuts", "ilp", "of cycles at most", 0, 1e6),
    parameter<&P::call_flops>("call-flops", "span",
                              "from which a product stands for a library call", 0),
    parameter<&P::footprint>("footprint", "span", "bytes of a pack of element-wise kernels", 0),
    parameter<&P::outputs>("outputs", "span", "of such a pack", 1),
    parameter<&P::rounds>("rounds", "span", "over the layers at most", 1, 1e6),
    parameter<&P::recompute>("recompute", kComposing,
                             "times that a composed expression is computed at most; 0: none is", 0,
                             kMostRecompute),
    parameter<&P::filter>("filter", kComposing,
                          "1: a CPU sums windows of three places by minimal filtering where that "
                          "is predicted to be quicker; 2: wherever it can; 0: nowhere",
                          0, 2),
    parameter<&P::reuse>(
        "reuse", "subprogram best auto souffle-v4",
        "1: what a block of a launch has on chip stays there for later kernels; 0: "
        "they read memory",
        0, 1),
    parameter<&P::ahead>("ahead", "subprogram best auto souffle-v4",
                         "1: blocks of a launch load what none of its kernels makes before they "
                         "wait for each other; 0: behind barriers",
                         0, 1),
    parameter<&P::flat>("flat", "chain subprogram auto",
                        "1: flat tiling expressions of chains, too; 0: deep ones alone", 0, 1),
    parameter<&P::gain>("gain", "greedy span dp ilp chain auto",
                        "share of their time that a CPU's blocks of stages save at least", 0, 1),
};

bool is_of(const Parameter& parameter, std::string_view planner) {
  for (size_t begin = 0; begin < parameter.planners.size();) {
    const size_t end = std::min(parameter.planners.find(' ', begin), parameter.planners.size());
    if (parameter.planners.substr(begin, end - begin) == planner) return true;
    begin = end + 1;
  }
  return false;
}

Result<const Parameter*> find(std::string_view name, std::string_view planner) {
  std::string known;
  for (const Parameter& p : kParameters) {
    if (!is_of(p, planner)) continue;
    if (p.name == name) return &p;
    known += (known.empty() ? "" : ", ") + std::string(p.name);
  }
  return invalid_input(fmt::format("planner '{}' has no parameter '{}'; it has {}", planner, name,
                                   known.empty() ? "none" : known));
}

Status set(std::string_view text, std::string_view planner, PlannerParameters& parameters) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return invalid_input(fmt::format("parameter '{}' of a planner: write NAME=NUMBER", text));
  WEFT_ASSIGN_OR_RETURN(const Parameter* p, find(text.substr(0, equals), planner));
  const std::string_view number = text.substr(equals + 1);
  double value = 0;
  const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool is_number = failed == std::errc() && end == number.data() + number.size() &&
                         (!p->is_whole || value == std::floor(value));
  if (!is_number || !(value >= p->least && value <= p->most)) {
    return invalid_input(fmt::format("parameter '{}' of a planner: {} is a {}number from {} to {}",
                                     text, p->name, p->is_whole ? "whole " : "", p->least,
                                     p->most));
  }
  p->set(parameters, value);
  return {};
}

}  // namespace

Result<PlannerParameters> parse_planner_parameters(std::string_view text,
                                                   std::string_view planner) {
  PlannerParameters parameters;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    WEFT_RETURN_IF_ERROR(set(text.substr(begin, end - begin), planner, parameters));
    begin = end + 1;
  }
  return parameters;
}

std::string planner_parameters_help() {
  std::string help;
  for (const Parameter& p : kParameters)
    help += fmt::format("{}{} ({}; {})", help.empty() ? "" : ", ", p.name, p.help, p.planners);
  return help;
}

}  // namespace weft
