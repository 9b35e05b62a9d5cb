#include "driver/explain/edge_verdicts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/explain/kernel_summary.h"

namespace weft {

namespace {

Error no_edge(const std::string& from, const std::string& to) {
  return invalid_input("no edge from '" + from + "' to '" + to +
                       "'; `weft explain --json` lists those of an artefact, and a model tells of "
                       "any two nodes");
}

}  // namespace

std::vector<EdgeVerdict> edge_verdicts(const Explained& c, const std::string& from,
                                       const std::string& to) {
  const auto has = [&](int32_t step, const std::string& name) {
    const auto known = step_names(c.tensors, step);
    return std::ranges::find(known, name) != known.end();
  };
  std::vector<EdgeVerdict> found;
  for (const EdgeDecision& e : c.plan.edges) {
    if (has(e.producer, from) && has(e.consumer, to))
      found.push_back({std::string(verdict_name(e.verdict)), e.reason, {}});
  }
  if (!found.empty()) return found;
  for (size_t s = 0; s < c.tensors.steps.size(); ++s) {
    const auto step = static_cast<int32_t>(s);
    if (has(step, from) && has(step, to)) return {{"fused", "both are one expression", {}}};
  }
  return {};
}

Result<std::vector<EdgeVerdict>> edge_verdicts(const std::string& explanation_json,
                                               const std::string& from, const std::string& to) {
  const auto explanation = nlohmann::json::parse(explanation_json, nullptr, false);
  std::vector<EdgeVerdict> found;
  if (!explanation.is_object()) return no_edge(from, to);
  for (const auto& e : explanation.value("edges", nlohmann::json::array())) {
    if (e.value("from", "") == from && e.value("to", "") == to)
      found.push_back({e.value("verdict", ""), e.value("reason", ""), {}});
  }
  if (found.empty()) return no_edge(from, to);
  return found;
}

}  // namespace weft
