#include "rewrite/remove_dead_nodes.h"

#include <algorithm>

#include "rewrite/graph_rebuilder.h"

namespace weft {

bool remove_dead_nodes(Graph& graph) {
  const bool regions_changed = rewrite_regions(graph, remove_dead_nodes);
  std::vector<bool> read(graph.values.size());
  for (ValueId v : graph.outputs) read[static_cast<size_t>(v)] = true;
  std::vector<bool> lives(graph.nodes.size());
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    lives[n] = std::any_of(node.results.begin(), node.results.end(),
                           [&](ValueId v) { return read[static_cast<size_t>(v)]; });
    if (!lives[n]) continue;
    for (ValueId v : node.operands) read[static_cast<size_t>(v)] = true;
  }
  if (std::find(lives.begin(), lives.end(), false) == lives.end()) return regions_changed;
  size_t kept = 0;
  for (size_t n = 0; n < lives.size(); ++n) {
    if (!lives[n]) continue;
    if (kept != n) graph.nodes[kept] = std::move(graph.nodes[n]);
    ++kept;
  }
  graph.nodes.resize(kept);
  drop_unmade_values(graph);
  return true;
}

}  // namespace weft
