#include "plan/generators/layers.h"

#include <algorithm>

namespace weft {

std::vector<int> spans_of(const FusionGraph& graph) {
  const auto n = static_cast<size_t>(graph.size());
  std::vector<int> spans(n, -1), ready;
  std::vector<size_t> left(n);
  for (int g = 0; g < graph.size(); ++g) {
    if (graph.steps(g).empty()) continue;
    spans[static_cast<size_t>(g)] = 0;
    left[static_cast<size_t>(g)] = graph.consumers(g).size();
    if (left[static_cast<size_t>(g)] == 0) ready.push_back(g);
  }
  while (!ready.empty()) {
    const int g = ready.back();
    ready.pop_back();
    for (const int p : graph.producers(g)) {
      int& span = spans[static_cast<size_t>(p)];
      span = std::max(span, spans[static_cast<size_t>(g)] + 1);
      if (--left[static_cast<size_t>(p)] == 0) ready.push_back(p);
    }
  }
  return spans;
}

std::vector<std::vector<int>> layers_of(const std::vector<int>& spans) {
  std::vector<std::vector<int>> layers;
  for (size_t g = 0; g < spans.size(); ++g) {
    if (spans[g] < 0) continue;
    const auto span = static_cast<size_t>(spans[g]);
    if (layers.size() <= span) layers.resize(span + 1);
    layers[span].push_back(static_cast<int>(g));
  }
  return layers;
}

}  // namespace weft
