#include <algorithm>
#include <map>
#include <set>

#include "plan/fusion_plan.h"

namespace weft {

std::string_view verdict_name(EdgeDecision::Verdict v) {
  switch (v) {
    case EdgeDecision::Verdict::kFused:
      return "fused";
    case EdgeDecision::Verdict::kIllegal:
      return "illegal";
    case EdgeDecision::Verdict::kUnprofitable:
      return "unprofitable";
  }
  return "";
}

namespace {

Result<Partition> partition(const TensorProgram& program, const Target& target,
                            const PlanOptions& options) {
  if (options.planner == "none") return partition_none(program, target);
  if (options.planner == "xla") return partition_xla(program, target);
  if (options.planner == "auto") return partition_auto(program, target);
  for (const char* later : {"span", "ilp", "dp", "subprogram", "chain"}) {
    if (options.planner == later) {
      return Error{ErrorCode::kMissingDevice,
                   "planner '" + options.planner + "' is not there yet; use none, xla or auto"};
    }
  }
  return invalid_input("unknown planner '" + options.planner + "'; known: none, xla, auto");
}

/// Kernels and opaque steps in dependence order; among those that are ready, the one whose first
/// step comes first.
std::vector<FusionPlan::Step> order_kernels(const TensorProgram& program,
                                            const std::vector<Group>& groups) {
  const TensorUses uses = tensor_uses(program);
  const size_t n = program.steps.size();
  std::vector<int> unit_of(n, -1);
  std::vector<FusionPlan::Step> units;
  std::vector<int> first;
  std::map<ExprId, int> group_of_expr;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const ExprId e : groups[g].exprs) group_of_expr[e] = static_cast<int>(g);
  }
  std::vector<int> unit_of_group(groups.size(), -1);
  for (size_t s = 0; s < n; ++s) {
    const auto& step = program.steps[s];
    if (step.opaque) {
      unit_of[s] = static_cast<int>(units.size());
      units.push_back({true, step.index});
      first.push_back(static_cast<int>(s));
      continue;
    }
    const int g = group_of_expr.at(step.index);
    int& unit = unit_of_group[static_cast<size_t>(g)];
    if (unit < 0) {
      unit = static_cast<int>(units.size());
      units.push_back({false, g});
      first.push_back(static_cast<int>(s));
    }
    unit_of[s] = unit;
  }
  std::vector<std::set<int>> after(units.size());
  std::vector<int> waits(units.size(), 0);
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const int producer = uses.producer[t];
    if (producer < 0) continue;
    for (const int consumer : uses.consumers[t]) {
      const int a = unit_of[static_cast<size_t>(producer)],
                b = unit_of[static_cast<size_t>(consumer)];
      if (a != b && after[static_cast<size_t>(a)].insert(b).second) ++waits[static_cast<size_t>(b)];
    }
  }
  std::set<std::pair<int, int>> ready;
  for (size_t u = 0; u < units.size(); ++u) {
    if (waits[u] == 0) ready.emplace(first[u], static_cast<int>(u));
  }
  std::vector<FusionPlan::Step> order;
  while (!ready.empty()) {
    const int u = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(units[static_cast<size_t>(u)]);
    for (const int v : after[static_cast<size_t>(u)]) {
      if (--waits[static_cast<size_t>(v)] == 0) ready.emplace(first[static_cast<size_t>(v)], v);
    }
  }
  WEFT_CHECK(order.size() == units.size(), "the partition is cyclic");
  return order;
}

}  // namespace

Result<FusionPlan> plan_fusion(const TensorProgram& program, const Target& target,
                               const PlanOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Partition parts, partition(program, target, options));
  FusionPlan plan;
  plan.planner = options.planner;
  plan.edges = std::move(parts.edges);
  plan.order = order_kernels(program, parts.groups);
  for (size_t g = 0; g < parts.groups.size(); ++g) {
    Group& group = parts.groups[g];
    PlannedKernel kernel;
    const TensorExpr& last = program.exprs[static_cast<size_t>(group.exprs.back())];
    kernel.name =
        "k" + std::to_string(g) + "_" + program.tensors[static_cast<size_t>(last.output)].name;
    for (const ExprId e : group.exprs)
      kernel.is_compute |= program.exprs[static_cast<size_t>(e)].is_contraction;
    WEFT_ASSIGN_OR_RETURN(kernel.schedule, schedule_group(program, group, target, kernel.name));
    kernel.group = std::move(group);
    plan.kernels.push_back(std::move(kernel));
  }
  for (const OpaqueExpr& opaque : program.opaques) {
    std::vector<std::shared_ptr<FusionPlan>> regions;
    for (const auto& region : opaque.regions) {
      WEFT_ASSIGN_OR_RETURN(FusionPlan inner, plan_fusion(*region, target, options));
      regions.push_back(std::make_shared<FusionPlan>(std::move(inner)));
    }
    plan.regions.push_back(std::move(regions));
  }
  return plan;
}

Status verify_plan(const TensorProgram& program, const FusionPlan& plan) {
  const auto broken = [](std::string what) {
    return Error{ErrorCode::kInternal, "plan: " + std::move(what)};
  };
  std::vector<int> seen(program.exprs.size(), 0);
  for (const PlannedKernel& kernel : plan.kernels) {
    for (const ExprId e : kernel.group.exprs) ++seen[static_cast<size_t>(e)];
  }
  for (size_t e = 0; e < seen.size(); ++e) {
    if (seen[e] != 1)
      return broken("expression " + std::to_string(e) + " is in " + std::to_string(seen[e]) +
                    " kernels");
  }
  std::set<TensorId> made;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].kind != Tensor::Kind::kIntermediate)
      made.insert(static_cast<TensorId>(t));
  }
  const auto need = [&](TensorId t) -> Status {
    if (made.count(t) != 0) return {};
    return broken(program.tensors[static_cast<size_t>(t)].name + " is read before it is stored");
  };
  for (const FusionPlan::Step& step : plan.order) {
    if (step.opaque) {
      const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(step.index)];
      for (const TensorId t : opaque.operands) WEFT_RETURN_IF_ERROR(need(t));
      made.insert(opaque.results.begin(), opaque.results.end());
      continue;
    }
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    const std::set<TensorId> outputs(kernel.group.outputs.begin(), kernel.group.outputs.end());
    for (const TensorId t : kernel.schedule.parameters) {
      if (outputs.count(t) == 0) WEFT_RETURN_IF_ERROR(need(t));
    }
    made.insert(outputs.begin(), outputs.end());
  }
  for (const TensorId t : program.outputs) WEFT_RETURN_IF_ERROR(need(t));
  return {};
}

std::string print(const FusionPlan& plan, const TensorProgram& program) {
  std::string out = "plan " + plan.planner + "\n";
  for (const FusionPlan::Step& step : plan.order) {
    if (step.opaque) {
      out += "opaque " +
             std::string(graph_op_name(program.opaques[static_cast<size_t>(step.index)].node.op)) +
             "\n";
      for (const auto& region : plan.regions[static_cast<size_t>(step.index)]) {
        const size_t r =
            static_cast<size_t>(&region - plan.regions[static_cast<size_t>(step.index)].data());
        out += "region {\n" +
               print(*region, *program.opaques[static_cast<size_t>(step.index)].regions[r]) + "}\n";
      }
      continue;
    }
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    out += "kernel " + kernel.name + " (" + kernel.schedule.schedule_template + "):";
    for (const ExprId e : kernel.group.exprs) {
      out +=
          " " +
          program.tensors[static_cast<size_t>(program.exprs[static_cast<size_t>(e)].output)].name;
    }
    out += "\n";
  }
  for (const EdgeDecision& edge : plan.edges) {
    out += "edge " + program.tensors[static_cast<size_t>(edge.tensor)].name + " " +
           std::to_string(edge.producer) + " -> " + std::to_string(edge.consumer) + ": " +
           std::string(verdict_name(edge.verdict)) +
           (edge.reason.empty() ? "" : ": " + edge.reason) + "\n";
  }
  return out;
}

}  // namespace weft
