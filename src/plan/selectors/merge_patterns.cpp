#include "plan/selectors/merge_patterns.h"

#include <algorithm>
#include <map>

#include "plan/generators/pattern_reduction.h"

namespace weft {

namespace {

/// Groups at a time: each is tried with each other, in halves.
constexpr size_t kWindow = 8;

}  // namespace

std::vector<Pattern> merge_patterns(const std::vector<Pattern>& patterns, FusionGraph& graph) {
  std::vector<Pattern> merged;
  for (const Pattern& p : patterns) {
    if (!graph.is_convex(p.groups)) continue;
    graph.merge(p.groups);
    merged.push_back(p);
  }
  return merged;
}

void merge_remote(const TensorProgram& program, const PatternRule& rule, size_t top,
                  FusionGraph& graph) {
  std::map<Shape, std::vector<int>> like;
  for (const int g : graph.ids()) {
    const TensorProgram::Step& last = program.steps[static_cast<size_t>(graph.steps(g).back())];
    like[program.exprs[static_cast<size_t>(last.index)].extents].push_back(g);
  }
  for (auto& [shape, groups] : like) {
    for (size_t from = 0; from < groups.size(); from += kWindow) {
      std::vector<int> window(
          groups.begin() + static_cast<std::ptrdiff_t>(from),
          groups.begin() + static_cast<std::ptrdiff_t>(std::min(from + kWindow, groups.size())));
      for (;;) {
        const Pattern best = reduce_remote(graph, rule, top, window);
        if (best.groups.empty()) break;
        std::erase_if(window, [&](int g) { return std::ranges::binary_search(best.groups, g); });
        window.push_back(graph.merge(best.groups));
        std::ranges::sort(window);
      }
    }
  }
}

}  // namespace weft
