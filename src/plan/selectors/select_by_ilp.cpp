#include "plan/selectors/select_by_ilp.h"

#include <algorithm>
#include <set>

namespace weft {

namespace {

IntegerProgram disjoint(const FusionGraph& graph, const std::vector<Pattern>& candidates) {
  IntegerProgram program;
  std::vector<std::vector<int>> holding(static_cast<size_t>(graph.size()));
  for (size_t c = 0; c < candidates.size(); ++c) {
    program.gains.push_back(candidates[c].gain_us);
    for (const int g : candidates[c].groups)
      holding[static_cast<size_t>(g)].push_back(static_cast<int>(c));
  }
  std::ranges::sort(holding);
  holding.erase(std::ranges::unique(holding).begin(), holding.end());
  for (std::vector<int>& columns : holding) {
    if (columns.size() > 1) program.rows.push_back({std::move(columns), 1});
  }
  return program;
}

}  // namespace

std::vector<int> find_cycle(const FusionGraph& graph, const std::vector<Pattern>& patterns) {
  const auto steps = static_cast<size_t>(graph.size());
  const auto node_of = [&, of = [&] {
    std::vector<int> at(steps, -1);
    for (size_t p = 0; p < patterns.size(); ++p) {
      for (const int g : patterns[p].groups) at[static_cast<size_t>(g)] = static_cast<int>(p);
    }
    return at;
  }()](int step) {
    const int p = of[static_cast<size_t>(step)];
    return static_cast<size_t>(p >= 0 ? p : static_cast<int>(patterns.size()) + step);
  };
  std::vector<std::set<size_t>> readers(patterns.size() + steps);
  for (int s = 0; s < graph.size(); ++s) {
    for (const int p : graph.producers(s)) {
      if (node_of(p) != node_of(s)) readers[node_of(p)].insert(node_of(s));
    }
  }
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(readers.size(), Mark::kNew);
  std::vector<std::pair<size_t, std::set<size_t>::const_iterator>> path;
  for (size_t begin = 0; begin < readers.size(); ++begin) {
    if (marks[begin] != Mark::kNew) continue;
    marks[begin] = Mark::kOpen;
    path.emplace_back(begin, readers[begin].begin());
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == readers[node].end()) {
        marks[node] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const size_t to = *next++;
      if (marks[to] == Mark::kOpen) {
        std::vector<int> cycle;
        for (auto at = path.rbegin();; ++at) {
          if (at->first < patterns.size()) cycle.push_back(static_cast<int>(at->first));
          if (at->first == to) return cycle;
        }
      }
      if (marks[to] != Mark::kNew) continue;
      marks[to] = Mark::kOpen;
      path.emplace_back(to, readers[to].begin());
    }
  }
  return {};
}

Result<Selection> select_by_ilp(const FusionGraph& graph, const std::vector<Pattern>& candidates,
                                const SelectionLimits& limits) {
  IntegerProgram program = disjoint(graph, candidates);
  Selection out;
  for (;;) {
    WEFT_ASSIGN_OR_RETURN(const IntegerSolution solution, solve(program, limits.most_nodes));
    out.patterns.clear();
    std::vector<int> columns;
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (!solution.chosen[c]) continue;
      out.patterns.push_back(candidates[c]);
      columns.push_back(static_cast<int>(c));
    }
    out.gain_us = solution.gain;
    out.bound_us = solution.bound;
    std::vector<int> cycle = find_cycle(graph, out.patterns);
    if (cycle.empty() || out.cuts == limits.most_cuts) {
      out.program = std::move(program);
      return out;
    }
    for (int& p : cycle) p = columns[static_cast<size_t>(p)];
    const int most = static_cast<int>(cycle.size()) - 1;
    program.rows.push_back({std::move(cycle), most});
    ++out.cuts;
  }
}

}  // namespace weft
