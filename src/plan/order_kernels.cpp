#include "plan/order_kernels.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace weft {

namespace {

/// What the kernels that still wait make.
Error cyclic(const TensorProgram& program, const std::vector<Group>& groups,
             const std::vector<FusionPlan::Step>& units, const std::vector<int>& waits) {
  std::string waiting;
  for (size_t u = 0; u < units.size(); ++u) {
    if (waits[u] == 0 || units[u].opaque) continue;
    const Group& group = groups[static_cast<size_t>(units[u].index)];
    const TensorExpr& last = program.exprs[static_cast<size_t>(group.exprs.back())];
    waiting +=
        (waiting.empty() ? "" : ", ") + program.tensors[static_cast<size_t>(last.output)].name;
  }
  return Error{ErrorCode::kInternal,
               "the partition is cyclic: the kernels of " + waiting + " wait for each other"};
}

}  // namespace

Result<std::vector<FusionPlan::Step>> order_kernels(const TensorProgram& program,
                                                    const std::vector<Group>& groups) {
  const TensorUses uses = tensor_uses(program);
  const size_t n = program.steps.size();
  std::vector<FusionPlan::Step> units;
  std::vector<int> first;
  std::vector<std::vector<int>> groups_of(program.exprs.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const ExprId e : groups[g].exprs)
      groups_of[static_cast<size_t>(e)].push_back(static_cast<int>(g));
  }
  std::vector<int> unit_of_group(groups.size(), -1);
  std::vector<std::vector<int>> units_of(n);  // by step
  for (size_t s = 0; s < n; ++s) {
    const auto& step = program.steps[s];
    if (step.opaque) {
      units_of[s].push_back(static_cast<int>(units.size()));
      units.push_back({true, step.index});
      first.push_back(static_cast<int>(s));
      continue;
    }
    for (const int g : groups_of[static_cast<size_t>(step.index)]) {
      int& unit = unit_of_group[static_cast<size_t>(g)];
      if (unit < 0) {
        unit = static_cast<int>(units.size());
        units.push_back({false, g});
        first.push_back(static_cast<int>(s));
      }
      units_of[s].push_back(unit);
    }
  }
  // Of several kernels that hold a step, the one that stores what it makes; none where nobody
  // reads it from memory.
  const auto storing = [&](size_t s, TensorId made) {
    if (units_of[s].size() == 1) return units_of[s][0];
    for (const int unit : units_of[s]) {
      const Group& g = groups[static_cast<size_t>(units[static_cast<size_t>(unit)].index)];
      if (std::ranges::find(g.outputs, made) != g.outputs.end()) return unit;
    }
    return -1;
  };
  std::vector<std::set<int>> after(units.size());
  std::vector<int> waits(units.size(), 0);
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const int producer = uses.producer[t];
    if (producer < 0) continue;
    const std::vector<int>& holding = units_of[static_cast<size_t>(producer)];
    const int a = storing(static_cast<size_t>(producer), static_cast<TensorId>(t));
    for (const int consumer : uses.consumers[t]) {
      for (const int b : units_of[static_cast<size_t>(consumer)]) {
        const bool copies = std::ranges::find(holding, b) != holding.end();
        if (a >= 0 && !copies && after[static_cast<size_t>(a)].insert(b).second)
          ++waits[static_cast<size_t>(b)];
      }
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
  if (order.size() == units.size()) return order;
  return cyclic(program, groups, units, waits);
}

}  // namespace weft
