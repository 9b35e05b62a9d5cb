#include "plan/generators/substitution.h"

#include <algorithm>
#include <numeric>

#include "expr/analysis/dependence.h"

namespace weft {

namespace {

constexpr int kSteps = 5;

/// Whether the reduction leaves the innermost axis of what it reads.
bool reduces_columns(const TensorExpr& e) {
  bool columns = false;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || s.indices.empty()) return;
    for (const int v : variables(s.indices.back())) columns |= v < e.output_rank();
  });
  return columns;
}

/// From which step on it partitions; kSteps: never.
int partitions_from(const TensorProgram& program, const TensorProgram::Step& step,
                    int64_t large_flops) {
  if (step.opaque) return 0;
  const TensorExpr& e = program.exprs[static_cast<size_t>(step.index)];
  if (e.is_contraction) return expr_cost(program, e).flops >= large_flops ? 0 : 1;
  if (e.reduce_extents.empty()) return kSteps;
  if (e.extents.empty() || std::ranges::all_of(e.extents, [](int64_t n) { return n == 1; }))
    return 3;
  return reduces_columns(e) ? 2 : 4;
}

/// Parts of the steps [first, last) that reads hold together, with `before` in those that read it.
std::vector<std::vector<int>> parts_of(const FusionGraph& graph, int first, int last, int before) {
  std::vector<int> of(static_cast<size_t>(last - first));
  std::iota(of.begin(), of.end(), 0);
  const auto root = [&](int i) {
    while (of[static_cast<size_t>(i)] != i) i = of[static_cast<size_t>(i)];
    return i;
  };
  std::vector<bool> reads_before(of.size(), false);
  for (int s = first; s < last; ++s) {
    for (const FusionGraph::Edge& e : graph.edges_into(s)) {
      if (e.producer >= first)
        of[static_cast<size_t>(root(e.producer - first))] = root(s - first);
      else if (e.producer == before)
        reads_before[static_cast<size_t>(s - first)] = true;
    }
  }
  std::vector<std::vector<int>> parts(of.size());
  for (int i = 0; i < static_cast<int>(of.size()); ++i) {
    std::vector<int>& part = parts[static_cast<size_t>(root(i))];
    if (reads_before[static_cast<size_t>(i)] && (part.empty() || part.front() != before))
      part.insert(part.begin(), before);
    part.push_back(first + i);
  }
  std::erase_if(parts, [](const std::vector<int>& part) { return part.empty(); });
  return parts;
}

}  // namespace

void substitute(const TensorProgram& program, const FusionGraph& graph, int64_t large_flops,
                CollectedPatterns& patterns) {
  std::vector<int> from;
  for (const TensorProgram::Step& step : program.steps)
    from.push_back(partitions_from(program, step, large_flops));
  const int n = graph.size();
  for (int level = 0; level < kSteps; ++level) {
    const auto partitions = [&](int s) { return from[static_cast<size_t>(s)] <= level; };
    for (int first = 0; first < n; ++first) {
      if (partitions(first)) continue;
      int last = first;
      while (last < n && !partitions(last)) ++last;
      std::vector<int> all(static_cast<size_t>(last - first));
      std::iota(all.begin(), all.end(), first);
      patterns.add(all);
      const int before = first > 0 && !graph.is_opaque(first - 1) ? first - 1 : -1;
      for (std::vector<int>& part : parts_of(graph, first, last, before)) {
        patterns.add(part);
        if (part.front() != before) continue;
        part.erase(part.begin());
        patterns.add(part);
      }
      first = last;
    }
  }
}

}  // namespace weft
